"""Abstracts of studies that nobody made: 64 to train on and 32 held out, in different words."""

from __future__ import annotations

from comlrl_envs.writing.demo.frames import Frame, interleaved

TRAIN: tuple[Frame, ...] = (
    Frame(
        "sensor",
        "",
        "Most {0} are counted by hand, which is slow and depends on the weather. We present a small sensor for "
        "{1} that hears {0} and sends one number each {2}. A simple model turns sound into counts and needs no "
        "network. In a test over {3} months the sensor found {4} of all {0} that people saw. The main errors came "
        "from {5}. The design is cheap, so that schools and farms can build their own and share what they find.",
        """
        bees | gardens | hour | five | nine in ten | rain on the roof
        owls | forests | night | eight | most | wind in old trees
        whales | ships | minute | ten | half | engines
        frogs | rivers | evening | four | two thirds | water on stones
        trains | bridges | day | six | almost all | heavy snow
        bats | caves | dusk | seven | four in five | warm stones
        crickets | fields | morning | three | a third | tractors
        geese | lakes | week | nine | three quarters | children at play
        """,
    ),
    Frame(
        "network",
        "",
        "Networks that learn from {0} often fail when the {1} change. We study why, with {2} small networks that "
        "differ in one layer only. Our analysis shows that the first layer keeps the {3} of {0} and throws their "
        "order away. A short second training with {4} brings the order back. On three public tasks this method "
        "halves the error and costs {5} of the usual time. The result suggests that early layers deserve more "
        "care.",
        """
        letters | fonts | forty | shape | turned pages | a tenth
        maps | colours | sixty | size | old atlases | a fifth
        songs | voices | ninety | loudness | slow music | a quarter
        stories | names | thirty | length | mixed sentences | a third
        pictures | lamps | eighty | brightness | night scenes | half
        recipes | units | fifty | numbers | swapped steps | an eighth
        clocks | hands | twenty | angle | broken dials | a sixth
        signs | roads | seventy | edges | snow scenes | two thirds
        """,
    ),
    Frame(
        "material",
        "",
        "Walls made of {0} are light but weak when they are wet. Here we mix {0} with {1} and press the mixture under "
        "{2}. The new material carries {3} times its weight and keeps its form after {4} days in water. Pictures of "
        "thin cuts show that {1} closes the small holes between grains. Making it needs {5} less heat than making "
        "bricks. We discuss how towns without much wood could build warm houses from it.",
        """
        straw | clay | steam | ninety | ten | a third
        paper | wax | stones | forty | six | half
        wool | lime | hot plates | sixty | twelve | a quarter
        sand | sugar | rollers | eighty | five | a fifth
        cork | salt | a screw | fifty | nine | two thirds
        leaves | glue | cold iron | thirty | eight | a tenth
        shells | resin | heavy rolls | seventy | twenty | a sixth
        reeds | ash | old rails | two hundred | thirty | much
        """,
    ),
    Frame(
        "sleep",
        "",
        "Children who {0} before bed are said to sleep badly, but few studies measured it. We followed {1} children in "
        "{2} for one {3}. Each wore a soft band that noted movement, light and warmth. Those who {0} fell asleep {4} "
        "minutes later, yet they slept as deeply as the others. The effect was gone when the room was {5}. We conclude "
        "that the room matters more than the habit, and give simple advice for parents.",
        """
        read | ninety | Oslo | winter | six | dark
        sing | sixty | Rome | year | nine | cool
        draw | eighty | Bern | month | four | quiet
        run | two hundred | Lima | summer | twelve | fresh
        eat | seventy | Delhi | autumn | ten | dry
        talk | fifty | Vienna | spring | eight | small
        bathe | forty | Dublin | season | seven | warm
        play chess | thirty | Quito | term | five | tidy
        """,
    ),
    Frame(
        "market",
        "",
        "Prices of {0} rise and fall without a clear cause. We collected {1} years of prices from {2} markets and "
        "asked which events come before a rise. A model with only {3} and the day of the week explains {4} of all "
        "changes. News, which many traders follow, adds nearly nothing. When we told farmers of the model, they "
        "sold {5} later and earned more. Our data and our code are open, so that others can test the claim.",
        """
        apples | thirty | nine | rain | half | a week
        rice | forty | twelve | river levels | two thirds | ten days
        wool | twenty | six | cold nights | a third | a month
        cheese | fifteen | eight | milk supply | most | two weeks
        onions | ten | seven | storage space | three quarters | five days
        honey | fifty | four | flower dates | a quarter | one season
        salt | sixty | five | ship arrivals | four fifths | three days
        tea | eighteen | eleven | wind | one half | nine days
        """,
    ),
    Frame(
        "robot",
        "",
        "Robots that carry {0} must move fast and still be careful. Earlier work plans each step in advance and stops "
        "whenever {1} appear. We let the robot learn from {2} hours of people doing the same work in a {3}. It learns "
        "when to wait, when to turn and how to hold {0}. In trials it dropped {4} of a hundred loads and was twice as "
        "fast as before. People felt safe near it because its {5} showed where it would go.",
        """
        glass | children | forty | museum | two | lamps
        books | visitors | ninety | library | one | wheels
        soup | dogs | sixty | kitchen | three | arms
        letters | doors | eighty | tower | none | flags
        bricks | workers | thirty | factory | four | front
        plates | waiters | fifty | hotel | five | head
        bread | carts | twenty | bakery | six | bell
        clocks | mirrors | seventy | castle | seven | eyes
        """,
    ),
    Frame(
        "story",
        "",
        "Old songs about {0} are found in many countries, and nobody knows where they began. We compare {1} versions "
        "from {2} by their words, rhymes and melodies. A family tree of the songs has its root near {3}, about {4} "
        "hundred years ago. Versions travelled with {5} rather than with armies. The tree also names two lost versions "
        "that must have existed. Our method needs little text and may help with other stories.",
        """
        foxes | ninety | islands | Cairo | six | ships
        wolves | sixty | villages | Vienna | nine | wool traders
        rivers | forty | valleys | Delhi | twelve | pilgrims
        kings | eighty | harbours | Dublin | eight | sailors
        the moon | seventy | deserts | Lima | five | salt traders
        snow | thirty | mountains | Oslo | seven | hunters
        bread | two hundred | farms | Paris | four | millers
        ladders | fifty | towns | Madrid | ten | players
        """,
    ),
    Frame(
        "light",
        "",
        "Light from {0} bends when it passes {1}, and the bend tells us the weight of what lies between. We measured "
        "{2} such bends with a telescope on {3}. Our weights are {4} larger than those from older methods. The reason "
        "is thin {5} that older maps did not show. With the new weights the known laws hold, and no strange force is "
        "needed. A larger survey next year will test this with a second telescope.",
        """
        stars | clouds | forty | a mountain | one tenth | dust
        comets | the sun | sixty | an island | one fifth | smoke
        far suns | dark moons | ninety | a ship | one third | gas
        lamps | hot air | eighty | a tower | twice | steam
        planets | rings | thirty | a farm | a quarter | ice
        lasers | glass | fifty | a roof | half again | oil
        bright gas | old stars | seventy | a desert hill | a sixth | metal
        young stars | black holes | twenty | a plane | three times | matter
        """,
    ),
)
EVAL: tuple[Frame, ...] = (
    Frame(
        "vaccine",
        "",
        "Farmers lose many {0} to {1} fever each {2}. Existing vaccines must stay frozen, which is impossible in "
        "remote {3}. This paper describes a dry vaccine that survives {4} weeks of heat and is given with {5}. "
        "Among treated animals only a few became ill, whereas nearly half of the untreated group did. Side "
        "effects were mild and short. Production could begin at local laboratories within two years.",
        """
        camels | desert | spring | oases | six | dates
        pigs | marsh | autumn | valleys | nine | acorns
        ducks | pond | summer | deltas | four | barley
        goats | hill | winter | passes | eight | hay
        horses | coast | year | islands | ten | oats
        sheep | moor | May | pastures | five | clover
        chickens | barn | June | hamlets | seven | maize
        turkeys | wood | season | clearings | three | millet
        """,
    ),
    Frame(
        "language",
        "",
        "Speakers of {0} dialects can drop {1} from a sentence and are still understood. Theories disagree about "
        "how listeners recover what is missing. Using recordings of {2} conversations, the authors track eye "
        "movements while listeners look at {3}. Recovery starts after {4} syllables, earlier than any theory "
        "predicts. Stress and rhythm, not grammar, are the strongest cues. Implications for hearing aids and for "
        "teaching {5} are explored.",
        """
        coastal | verbs | phone | puppets | two | adults
        alpine | articles | kitchen | statues | three | migrants
        southern | pronouns | office | balloons | four | teenagers
        urban | endings | classroom | umbrellas | five | nurses
        nomadic | subjects | campfire | carpets | six | traders
        northern | prepositions | radio | stamps | seven | pilots
        island | vowels | fishing | dolphins | eight | tourists
        western | questions | tavern | magnets | nine | engineers
        """,
    ),
    Frame(
        "energy",
        "",
        "Storing heat in {0} is cheap, although much of it escapes through {1}. By coating the container with {2}, "
        "leakage falls to {3} percent a week. Computer simulations agree with a prototype that heated a {4} throughout "
        "January. The coating is recycled from {5} and lasts for decades. Compared with batteries, the system costs "
        "less per unit and contains nothing toxic. Cities with cold winters are the natural place for a pilot.",
        """
        gravel | pipes | foam | two | hospital | bottles
        basalt | valves | ceramic | three | gymnasium | tyres
        sandbags | seams | rubber | four | greenhouse | carpets
        brine | lids | felt | five | theatre | jackets
        soda salts | joints | aerogel | six | laundry | packaging
        granite | hatches | plaster | seven | monastery | gypsum boards
        molten tin | bolts | mica | eight | brewery | windscreens
        paraffin | hinges | fibreglass | nine | nursery | surfboards
        """,
    ),
    Frame(
        "traffic",
        "",
        "Congestion near {0} grows even where new lanes are added. Previous explanations blame {1}, but detailed "
        "counts are rare. Cameras at {2} crossings recorded every vehicle during {3}. Drivers changed routes "
        "after merely two delays and seldom returned, a pattern captured by a queue model with {4} parameters. "
        "Closing one {5} lane shortened journeys for everybody. Planners should therefore examine behaviour "
        "before pouring concrete.",
        """
        airports | taxis | forty | a strike | three | bus
        stadiums | parking | sixty | a festival | four | exit
        shops | tourists | ninety | an election | two | service
        ports | lorries | eighty | a storm | five | loading
        universities | cyclists | thirty | examinations | six | turning
        canals | bridges | fifty | a regatta | seven | ferry
        malls | deliveries | seventy | December | eight | kerb
        ski slopes | coaches | twenty | a heatwave | nine | scenic
        """,
    ),
)


def rows(split: str) -> list[dict[str, str]]:
    """The abstracts of ``"train"`` or ``"eval"``."""
    filled = interleaved(TRAIN if split == "train" else EVAL)
    return [{"id": name, "abstract_text": body} for name, _, body in filled]
