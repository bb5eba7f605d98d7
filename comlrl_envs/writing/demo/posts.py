"""Everyday posts, none of them by anyone: 64 to train on and 32 held out, in different words."""

from __future__ import annotations

from comlrl_envs.writing.demo.frames import Frame, interleaved

TRAIN: tuple[Frame, ...] = (
    Frame(
        "borrowed",
        "My {0} broke my {1}",
        "My {0} asked for my {1} last {2} and brought it back broken. The {3} was bent and the rest was full of {4}. "
        "I asked for the money, but my {0} said that old things break. I use my {1} every {5}. Should I buy a new one "
        "and stay quiet, or ask again?",
        """
        brother | bicycle | summer | wheel | mud | morning
        neighbour | ladder | winter | step | paint | weekend
        cousin | guitar | month | neck | dust | evening
        friend | telescope | spring | stand | sand | night
        sister | kite | week | frame | leaves | Sunday
        uncle | drum | autumn | edge | water | Friday
        aunt | kettle | year | handle | salt | day
        boss | camera | Monday | lens | rain | holiday
        """,
    ),
    Frame(
        "garden",
        "Something eats my {0} at night",
        "We planted {0} behind the {1} this year. Each night some animal comes and eats the {2} leaves. My wife thinks "
        "it is a {3}, my son saw a {4} near the fence. We tried {5} and a loud bell, but nothing helped. What keeps "
        "animals away from {0} without hurting them?",
        """
        cabbages | barn | young | rabbit | deer | soap
        beans | kitchen | soft | snail | hedgehog | ashes
        apples | house | low | squirrel | goat | nets
        roses | school | red | mouse | cow | pepper
        carrots | shed | small | rat | fox | wire
        plums | garage | green | crow | badger | old shoes
        onions | tower | fresh | beetle | hare | coffee grounds
        tulips | church | first | slug | pony | mint
        """,
    ),
    Frame(
        "job",
        "Leave the {0} for the {1}?",
        "I have worked in a {0} for {2} years and I like the people. Now a friend wants me to help in a {1} near the "
        "{3}. The pay is lower, but the hours are good and I love {4}. My parents say that I should stay. I must "
        "answer by {5} and cannot sleep.",
        """
        bank | bakery | six | harbour | bread | Friday
        hospital | library | nine | park | books | Monday
        factory | farm | four | river | horses | Sunday
        hotel | museum | seven | market | old maps | tomorrow
        law office | school | five | forest | children | June
        car shop | boat yard | eight | sea | ships | March
        call centre | toy shop | three | station | trains | Tuesday
        paper mill | cheese farm | ten | mountain | goats | May
        """,
    ),
    Frame(
        "noise",
        "The {0} upstairs",
        "A man moved in above us and plays the {0} until {1}. Our baby wakes up and my husband drives a {2} early in "
        "the morning. We wrote him a kind letter and gave him {3}, and he laughed. The owner of the house is on a "
        "{4} and does not answer. How do we talk to him before we both lose our {5}?",
        """
        piano | midnight | bus | a cake | boat | minds
        trumpet | eleven | taxi | plums | trip | patience
        violin | two | truck | warm soup | ship | jobs
        drums | one | tram | honey | mountain | tempers
        flute | ten | train | a clock | farm | smiles
        organ | dawn | van | slippers | holiday | health
        banjo | three | tractor | tea | train | nerves
        cello | twelve | crane | a rug | honeymoon | humour
        """,
    ),
    Frame(
        "pet",
        "My {0} only eats {1}",
        "Two weeks ago I took in an old {0} from a {2}. It sleeps in a {3} and looks happy, but it only eats {1}. The "
        "doctor says that this is bad for its {4}. When I put other food down, it turns away and cries. My daughter "
        "gives it {1} in secret because she loves it. How do I make both of them stop?",
        """
        cat | cheese | farm | basket | teeth
        dog | cake | street | box | heart
        parrot | nuts | ship | cage | wings
        rabbit | bread | school | drawer | stomach
        turtle | plums | market | bucket | shell
        goose | rice | park | barn | feet
        pony | sugar | circus | stable | legs
        hamster | chocolate | friend | shoe | fur
        """,
    ),
    Frame(
        "trip",
        "A {0} with my {1}",
        "My {1} and I want to take a {0} along the {2} in {3}. I would like a small tent and quiet nights. My {1} "
        "wants a hotel with a {4} and much music. We have {5} dollars for all of it and one old car. Every talk "
        "about it ends in a fight. Is there a plan that makes both of us happy?",
        """
        long walk | father | river | June | pool | four hundred
        boat trip | mother | coast | May | bar | nine hundred
        train ride | brother | lake | March | garden | six hundred
        bike tour | sister | canal | April | sauna | three hundred
        road trip | girlfriend | desert | July | balcony | seven hundred
        ski week | grandfather | border | winter | kitchen | eight hundred
        hike | roommate | mountains | autumn | television | five hundred
        camping week | boyfriend | beach | August | cinema | two hundred
        """,
    ),
    Frame(
        "wedding",
        "{0} for the wedding",
        "My best friend marries in {1} and asked me to make {0} for {2} guests. I said yes because I was proud. Then I "
        "learned that she wants no {3} and no {4} at all. I have a small kitchen and never cooked for more than "
        "{5} people. I am afraid to tell her that it is too much for me.",
        """
        soup | spring | eighty | salt | milk | six
        cakes | May | ninety | sugar | eggs | five
        bread | autumn | two hundred | wheat | butter | four
        salads | June | sixty | onions | cheese | eight
        pies | winter | seventy | fruit | honey | three
        rice bowls | March | fifty | fish | pepper | seven
        cookies | August | three hundred | nuts | flour | nine
        pasta | April | forty | meat | tomatoes | two
        """,
    ),
    Frame(
        "found",
        "I found a {0} in the {1}",
        "When I cleaned the {1} of our new house, I found a {0} under the {2}. Inside were {3} and a letter from a "
        "woman called {4}. She wrote it to her son, who went to {5} long ago. The people who sold us the house know "
        "nothing. I would like to give it to the family, but where do I begin?",
        """
        box | attic | floor | silver coins | Rosa | sea
        bag | cellar | stairs | old songs | Ida | Cairo
        case | barn | straw | paper flowers | Anna | war
        chest | tower | clock | gold rings | Nina | Rome
        tin | shed | bricks | glass birds | Eva | Tokyo
        basket | kitchen | oven | letters | Lena | Lima
        jar | hall | mirror | black stones | Mira | school
        trunk | garage | bench | wool coats | Kim | Paris
        """,
    ),
)
EVAL: tuple[Frame, ...] = (
    Frame(
        "dance",
        "Too shy for the {0} class",
        "I am {1} years old and always dreamed of learning {0}. A class meets near my {2} on {3} evenings, and it "
        "costs almost nothing. Twice I stood at the door with my {4} and went home again. Everybody in there "
        "looked young and strong. Did any of you start late, and how did you get through that door?",
        """
        tango | fifty | office | Monday | red shoes
        ballet | forty | bakery | Friday | new socks
        judo | sixty | church | Sunday | white coat
        fencing | thirty | school | Tuesday | old mask
        painting | seventy | station | Thursday | best brush
        swimming | eighty | garden | Saturday | blue towel
        pottery | twenty | river | Wednesday | grey apron
        singing | ninety | market | winter | song book
        """,
    ),
    Frame(
        "neighbour",
        "His {0} hangs over our {1}",
        "The man next door owns a huge {0} that hangs over our {1}. In every storm {2} fall down, and last {3} one "
        "hit our {4}. He says that his grandmother put it there and that he will never cut it. I offered to pay a "
        "worker and to bring him {5}. Do we have any rights, or do we just wait for an accident?",
        """
        oak | roof | branches | winter | car | firewood
        pine | yard | cones | spring | dog | lemons
        flag | balcony | wet cloths | week | lamp | a smaller one
        sign | gate | letters | month | window | new paint
        willow | pond | sticks | summer | boat | a young tree
        vine | terrace | grapes | autumn | table | wine
        antenna | path | wires | night | mailbox | cables
        palm | pool | dry leaves | year | chair | a ladder
        """,
    ),
    Frame(
        "exam",
        "Failed {0}, afraid to tell my {1}",
        "Yesterday I failed my {0} exam for the {2} time. I studied in the {3} each afternoon and drank far too much "
        "{4}. My {1} paid for the course and tells everyone how clever I am. A teacher offered to help, yet I am "
        "ashamed to accept. Please tell me how to start this conversation.",
        """
        physics | grandmother | second | library | coffee
        driving | father | third | car | tea
        history | stepmother | fourth | cellar | cola
        chemistry | uncle | fifth | kitchen | juice
        Latin | godfather | sixth | attic | cocoa
        biology | aunt | second | greenhouse | lemonade
        algebra | mother | third | train | milk
        geography | brother | fourth | museum | espresso
        """,
    ),
    Frame(
        "phone",
        "My {0} lives in his phone",
        "My {0} is {1} and carries a phone everywhere, even into the {2}. During dinner he watches videos about "
        "{3} and forgets his {4}. We set a rule of one hour a day, and he screamed for a week. His teacher "
        "reports that he sleeps behind his desk. Parents who have been here: which rule worked for you?",
        """
        son | twelve | bathtub | rockets | potatoes
        nephew | thirteen | swimming pool | camels | noodles
        grandson | eleven | church | wrestling | peas
        stepson | fourteen | shower | sharks | sausages
        godson | ten | sandpit | volcano islands | spinach
        pupil | nine | gym | dinosaurs | sandwich
        little brother | eight | tent | football | pancakes
        foster child | fifteen | forest | magic tricks | dumplings
        """,
    ),
)
FORUMS = ("r/advice", "r/family", "r/home", "r/everyday")


def rows(split: str) -> list[dict[str, str]]:
    """The posts of ``"train"`` or ``"eval"`` in the usual form, ready to be summarised."""
    filled = interleaved(TRAIN if split == "train" else EVAL)
    return [
        {
            "id": name,
            "prompt": f"SUBREDDIT: {FORUMS[place % len(FORUMS)]}\n\nTITLE: {title}\n\nPOST: {body}\n\nTL;DR:",
        }
        for place, (name, title, body) in enumerate(filled)
    ]
