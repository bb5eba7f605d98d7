"""The instruction corpus that the shipped tiny policy is trained on.

Every dialogue is made from templates by a seeded generator, so a seed gives the same corpus on every machine.
The corpus teaches a form, not a task's goal: it holds no score and no statement of how long one text should be
beside another, and none of the held-out topics in :data:`comlrl_envs.writing.topics.EVAL_TOPICS`. Roughly two
dialogues in five ask for a short text; the others cover code, calls, passages, tags, plans, sums and copying.
Half of the topics and most of the words to be copied are invented, so that a word that was never seen
is spelled out from the prompt instead of being swapped for a known one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from comlrl_envs.writing.topics import EVAL_TOPICS, TRAIN_TOPICS

Dialogue = list[tuple[str, str]]
"""The turns of one dialogue: pairs of a role (``system``, ``user`` or ``assistant``) and its text."""

EXTRA_NOUNS: tuple[str, ...] = (
    "cats", "boats", "music", "sand", "birds", "wheels", "roads", "trees", "milk", "games", "songs", "fire",
    "lamps", "chairs", "hats", "wind", "stones", "fish", "dreams", "schools", "coins", "walls", "fields", "sugar",
    "silver", "plums", "toys", "doors", "boxes", "baskets", "seeds", "ice",
)  # fmt: skip
_SINGULAR_WITH_S = frozenset({"glass"})
_UNSEEN = frozenset(EVAL_TOPICS)
_KNOWN = frozenset(TRAIN_TOPICS + EXTRA_NOUNS)

SENTENCE_WEIGHTS: tuple[int, ...] = (2, 3, 3, 3, 2, 1)
"""Weights of one to six sentences in a text whose length was not asked for."""
_MAX_COST = 52

OPENERS: tuple[str, ...] = (
    "Many people like {t}.",
    "Most people know a little about {t}.",
    "There is much to say about {t}.",
    "I like to think about {t}.",
    "Some {t} can surprise us.",
    "My sister loves {t}.",
    "We can learn a lot from {t}.",
    "Old stories often speak of {t}.",
    "Few things are as good as {t}.",
    "A day with {t} can be a good day.",
    "The world needs {t}.",
    "Long ago, people wondered about {t}.",
    "Every child asks about {t}.",
    "Nobody knows all about {t}.",
    "Good {t} can make a dull day bright.",
    "Our town is known for {t}.",
    "It is easy to like {t}.",
    "You can find {t} in many places.",
    "Not many things feel like {t}.",
    "People have always loved {t}.",
)
TOPIC_SENTENCES: tuple[str, ...] = (
    "A book about {t} is on my desk.",
    "My father told me about {t}.",
    "Children draw {t} at school.",
    "Some people study {t} for years.",
    "I saw {t} in a dream.",
    "The old songs speak of {t}.",
    "A friend of mine writes about {t}.",
    "In winter we talk about {t}.",
    "Without {t} life would be dull.",
    "We read about {t} last night.",
    "Most {t} can wait for us.",
    "The best {t} may be far away.",
    "Small {t} can do great things.",
    "My brother has a song about {t}.",
    "Artists like to paint {t}.",
    "A good story needs {t}.",
    "Even a king may ask for {t}.",
    "The morning is a good time for {t}.",
    "Our teacher knows a lot about {t}.",
    "Strange {t} can be found far away.",
    "There is a small house full of {t}.",
    "We should take care of {t}.",
    "Quiet people often like {t}.",
    "Each year brings new {t}.",
)
PRONOUN_SENTENCES: tuple[str, ...] = (
    "{S} can bring us joy.",
    "{S} may look simple at first.",
    "{S} can change with the weather.",
    "{S} can make a long day short.",
    "{S} must be treated with care.",
    "{S} can be old or new.",
    "{S} never fail to please us.",
    "{S} could teach us to be kind.",
    "{S} will be here for a long time.",
    "{S} may be near or far.",
    "I could talk about {o} all day.",
    "We see {o} in a new way each time.",
    "My mother has a story about {o}.",
    "Some of us dream of {o} at night.",
    "Many songs were made about {o}.",
    "You can ask an old friend about {o}.",
    "People travel far to see {o}.",
    "The light makes {o} look warm.",
    "I would not want a world without {o}.",
    "We still have a lot to learn about {o}.",
    "A poet once gave {o} a name.",
    "In the evening I think of {o} again.",
    "Take time to look at {o}.",
    "Everyone sees {o} in their own way.",
)
_SINGULAR_FIX = {"never fail to please": "never fails to please"}

REQUESTS: tuple[str, ...] = ("Write about {t}.", "Tell me about {t}.", "Describe {t}.")
LONGER: tuple[str, ...] = (
    "Write it again, longer.",
    "Make it longer.",
    "That was too short. Make it longer.",
    "Please write more.",
)
SHORTER: tuple[str, ...] = (
    "Write it again, shorter.",
    "Make it shorter.",
    "That was too long. Make it shorter.",
    "Please write less.",
)
AGAIN: tuple[str, ...] = ("Try again.", "Write it again.", "Write another one.")
_SYSTEM: tuple[str, ...] = (
    "You are a helpful writer.",
    "You work in a team of two.",
    "You are agent 1.",
    "You are agent 2.",
    "Answer the question.",
)

_ONSETS = (
    "b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "fr", "g", "gl", "gr", "h", "j", "k", "l", "m", "n", "p",
    "pl", "pr", "qu", "r", "s", "sh", "sl", "sp", "st", "t", "th", "tr", "v", "w", "z", "", "", "",
)  # fmt: skip
_VOWELS = ("a", "a", "e", "e", "i", "i", "o", "o", "u", "u", "ai", "ea", "ee", "oo", "ou", "y")
_CODAS = (
    "", "", "", "", "", "", "", "", "n", "r", "l", "m", "s", "t", "ck", "nd", "mp", "st", "x", "ng", "ll", "nt",
    "gn",
)  # fmt: skip

NAMES: tuple[str, ...] = (
    "Mira", "Tom", "Anna", "Leo", "Nina", "Omar", "Ida", "Sam", "Rosa", "Paul", "Eva", "Ben", "Kim", "Max",
    "Lena", "Noah",
)  # fmt: skip
CITIES: tuple[str, ...] = (
    "Oslo", "Rome", "Paris", "Cairo", "Lima", "Delhi", "Tokyo", "Bern", "Madrid", "Dublin", "Vienna", "Quito",
)  # fmt: skip
COLOURS: tuple[str, ...] = ("red", "blue", "green", "white", "black", "yellow", "brown", "pink")
THINGS: tuple[str, ...] = (
    "kite", "hat", "lamp", "key", "book", "cup", "coin", "drum", "map", "ball", "bag", "clock", "box", "coat",
    "shoe", "letter",
)  # fmt: skip
PLACES: tuple[str, ...] = (
    "attic", "kitchen", "garden", "cellar", "hall", "barn", "shop", "tower", "school", "office", "boat", "shed",
)  # fmt: skip
TRANSPORT: tuple[str, ...] = ("train", "bus", "car", "boat", "bike", "tram")
MEALS: tuple[str, ...] = ("soup", "rice", "bread", "cheese", "fish", "plums", "pasta", "salad")


def invented_word(rng: random.Random) -> str:
    """Makes a pronounceable word that means nothing.

    Args:
        rng: Source of the choices.

    Returns:
        A lower-case word of four to nine letters that is not one of the held-out topics.
    """
    while True:
        count = rng.choice((2, 2, 2, 3))
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(count))
        if rng.random() < 0.6 and not word.endswith(("s", "x")):
            word += "s"
        if 4 <= len(word) <= 9 and word not in _UNSEEN:
            return word


def draw_word(rng: random.Random, invented: float = 0.5) -> str:
    """Draws a topic or another noun, or invents one.

    Args:
        rng: Source of the choices.
        invented: Chance of an invented word.

    Returns:
        A lower-case word.
    """
    if rng.random() < invented:
        return invented_word(rng)
    return rng.choice(TRAIN_TOPICS if rng.random() < 0.65 else EXTRA_NOUNS)


def is_plural(topic: str) -> bool:
    """Says whether a topic takes "they" instead of "it".

    Args:
        topic: A lower-case noun.

    Returns:
        True for a word that ends in s, except the few that are singular.
    """
    return topic.endswith("s") and topic not in _SINGULAR_WITH_S


def _fill(template: str, topic: str) -> str:
    plural = is_plural(topic)
    text = template.format(t=topic, S="They" if plural else "It", o="them" if plural else "it")
    if not plural:
        for old, new in _SINGULAR_FIX.items():
            text = text.replace(old, new)
    return text


def _cost(sentences: list[str], topic: str) -> int:
    """Estimates tokens: one a word and a mark, and more for an invented topic, which is spelled in pieces."""
    text = " ".join(sentences)
    pieces = len(topic) // 7 if topic in _KNOWN else len(topic) // 2
    return len(text.split()) + sum(text.count(mark) for mark in ".,") + text.count(topic) * pieces


def sentences_about(rng: random.Random, topic: str, count: int) -> list[str]:
    """Draws sentences about a topic, none of them twice.

    Args:
        rng: Source of the choices.
        topic: What they are about.
        count: How many; fewer are given where they would not fit a small budget of tokens.

    Returns:
        The sentences, the first of which names the topic.
    """
    named = rng.sample(TOPIC_SENTENCES, count)
    unnamed = rng.sample(PRONOUN_SENTENCES, count)
    first = rng.choice(OPENERS) if rng.random() < 0.8 else named.pop()
    later = ((named if rng.random() < 0.4 else unnamed).pop() for _ in range(count - 1))
    chosen = [_fill(template, topic) for template in (first, *later)]
    while len(chosen) > 1 and _cost(chosen, topic) > _MAX_COST:
        chosen.pop()
    return chosen


def sentence_count(rng: random.Random) -> int:
    """Draws a number of sentences from the broad default distribution.

    Args:
        rng: Source of the choices.

    Returns:
        One to six.
    """
    return rng.choices(range(1, len(SENTENCE_WEIGHTS) + 1), SENTENCE_WEIGHTS)[0]


def _text(rng: random.Random, topic: str, count: int) -> str:
    return " ".join(sentences_about(rng, topic, count))


def free_text(rng: random.Random) -> Dialogue:
    """A text of a length that nobody asked for.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    topic = draw_word(rng)
    request = rng.choices(REQUESTS, (3, 1, 1))[0].format(t=topic)
    return [("user", request), ("assistant", _text(rng, topic, sentence_count(rng)))]


def sized_text(rng: random.Random) -> Dialogue:
    """A text that the request wants brief or in detail.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    topic = draw_word(rng)
    request = rng.choices(REQUESTS, (3, 1, 1))[0].format(t=topic)
    if rng.random() < 0.5:
        return [
            ("user", f"{request} Answer briefly."),
            ("assistant", _text(rng, topic, rng.choices((1, 2), (3, 2))[0])),
        ]
    return [
        ("user", f"{request} Answer in detail."),
        ("assistant", _text(rng, topic, rng.choices((4, 5), (3, 2))[0])),
    ]


def revised_text(rng: random.Random) -> Dialogue:
    """A text, and the same request once more: longer, shorter, or just again.

    Args:
        rng: Source of the choices.

    Returns:
        Two exchanges.
    """
    topic = draw_word(rng)
    way = rng.choices(("longer", "shorter", "again"), (2, 2, 1))[0]
    if way == "longer":
        first = sentences_about(rng, topic, rng.choice((1, 2, 3)))
        ask, count = rng.choice(LONGER), min(len(first) + rng.choice((1, 2, 3)), 6)
    elif way == "shorter":
        first = sentences_about(rng, topic, rng.choice((2, 3, 4, 5)))
        ask, count = rng.choice(SHORTER), rng.randint(1, max(1, len(first) - 1))
    else:
        first = sentences_about(rng, topic, sentence_count(rng))
        ask, count = rng.choice(AGAIN), sentence_count(rng)
    second = sentences_about(rng, topic, count)
    if way == "shorter" and rng.random() < 0.5:
        second = first[:count]
    return [
        ("user", rng.choices(REQUESTS, (3, 1, 1))[0].format(t=topic)),
        ("assistant", " ".join(first)),
        ("user", ask),
        ("assistant", " ".join(second)),
    ]


NUMBER_OPERATIONS: tuple[tuple[str, str], ...] = (
    ("doubles {x}", "{x} * 2"),
    ("squares {x}", "{x} * {x}"),
    ("adds {k} to {x}", "{x} + {k}"),
    ("takes {k} from {x}", "{x} - {k}"),
    ("multiplies {x} by {k}", "{x} * {k}"),
    ("adds up the list {x}", "sum({x})"),
    ("gives the largest item of {x}", "max({x})"),
    ("gives the smallest item of {x}", "min({x})"),
    ("gives the length of {x}", "len({x})"),
)
SEQUENCE_OPERATIONS: tuple[tuple[str, str], ...] = (
    ("reverses the text {x}", "{x}[::-1]"),
    ("puts the text {x} in upper case", "{x}.upper()"),
    ("puts the text {x} in lower case", "{x}.lower()"),
    ("gives the first item of {x}", "{x}[0]"),
    ("gives the last item of {x}", "{x}[-1]"),
    ("sorts the list {x}", "sorted({x})"),
)
AFTER_NUMBER: tuple[tuple[str, str], ...] = (
    ("adds {k}", "{call} + {k}"),
    ("takes away {k}", "{call} - {k}"),
    ("multiplies by {k}", "{call} * {k}"),
    ("gives its result", "{call}"),
)
AFTER_SEQUENCE: tuple[tuple[str, str], ...] = (
    ("gives its result", "{call}"),
    ("gives its length", "len({call})"),
    ("says it twice", "{call} * 2"),
)
_FUNCTIONS = ("solve", "work", "compute", "change", "build", "fix", "make", "f", "g", "run", "task")
_VARIABLES = ("x", "n", "a", "s", "y", "z", "v", "items", "text")


def _function(name: str, arguments: str, body: str) -> str:
    return f"def {name}({arguments}):\n    return {body}"


def code(rng: random.Random) -> Dialogue:
    """A small Python function, a helper, or a function that calls the helper.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange, or two where the helper is asked for first.
    """
    name = invented_word(rng) if rng.random() < 0.2 else rng.choice(_FUNCTIONS)
    x, first, second = rng.choice(_VARIABLES), rng.randint(1, 9), rng.randint(1, 9)
    numeric = rng.random() < 0.6
    operations, following = (NUMBER_OPERATIONS, AFTER_NUMBER) if numeric else (SEQUENCE_OPERATIONS, AFTER_SEQUENCE)
    says, does = (part.format(x=x, k=first) for part in rng.choice(operations))
    kind = rng.choice(("plain", "stub", "helper", "main", "both"))
    if kind == "plain":
        return [("user", f"Write a function {name}({x}) that {says}."), ("assistant", _function(name, x, does))]
    if kind == "stub":
        stub = f'Complete this function:\ndef {name}({x}):\n    """It {says}."""'
        return [("user", stub), ("assistant", _function(name, x, does))]
    helper: Dialogue = [
        ("user", f"Write a helper aux({x}) that {says}."),
        ("assistant", _function("aux", x, does)),
    ]
    if kind == "helper":
        return helper
    then, body = (part.format(call=f"aux({x})", k=second) for part in rng.choice(following))
    if kind == "main":
        ask = f"The helper aux({x}) {says}. Write {name}({x}) that calls aux and {then}."
        return [("user", ask), ("assistant", _function(name, x, body))]
    ask = f"Now write {name}({x}) that calls aux and {then}."
    return [*helper, ("user", ask), ("assistant", _function(name, x, body))]


TOOLS: tuple[tuple[str, str, str], ...] = (
    ("get_weather", "city", "show the weather in {v}"),
    ("play_song", "title", "play the song {v}"),
    ("send_mail", "to", "send a mail to {v}"),
    ("find_word", "word", "look up {v}"),
    ("book_table", "place", "book a table at {v}"),
    ("add_task", "name", "add the task {v}"),
    ("open_file", "path", "open the file {v}"),
    ("buy", "item", "buy some {v}"),
)
_VALUES: dict[str, tuple[str, ...]] = {"city": CITIES, "to": NAMES}


def _call(style: str, name: str, key: str, value: str) -> str:
    if style == "JSON":
        return json.dumps({"name": name, "arguments": {key: value}})
    return f'{name}({key}="{value}")'


def tool_call(rng: random.Random) -> Dialogue:
    """One or two calls, in JSON or as Python, of the functions that a request lists.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    listed = rng.sample(TOOLS, rng.choice((2, 3)))
    used = rng.sample(listed, rng.choice((1, 1, 2)))
    style = rng.choice(("JSON", "Python"))
    values = [rng.choice(_VALUES[key]) if key in _VALUES else draw_word(rng) for _, key, _ in used]
    signatures = ", ".join(f"{name}({key})" for name, key, _ in listed)
    wish = " and ".join(tool[2].format(v=value) for tool, value in zip(used, values, strict=True))
    calls = [_call(style, tool[0], tool[1], value) for tool, value in zip(used, values, strict=True)]
    ask = f"Functions: {signatures}.\nRequest: {wish}.\nReply in {style}."
    return [("user", ask), ("assistant", "\n".join(calls))]


def _fact(rng: random.Random, name: str, thing: str) -> tuple[str, list[tuple[str, str]]]:
    colour, place = rng.choice(COLOURS), rng.choice(PLACES)
    questions = [
        (f"Where does {name} keep the {thing}?", f"in the {place}"),
        (f"Who keeps the {thing}?", name),
        (f"What does {name} keep?", f"a {colour} {thing}"),
        (f"What colour is the {thing}?", colour),
    ]
    elsewhere = rng.choice([other for other in PLACES if other != place])
    questions += [(f"Is the {thing} in the {place}?", "yes"), (f"Is the {thing} in the {elsewhere}?", "no")]
    return f"{name} keeps a {colour} {thing} in the {place}.", questions


def passage(rng: random.Random) -> Dialogue:
    """A question whose answer stands in a passage of one to three invented facts.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    count = rng.choice((1, 2, 2, 3))
    pairs = zip(rng.sample(NAMES, count), rng.sample(THINGS, count), strict=True)
    facts = [_fact(rng, name, thing) for name, thing in pairs]
    question, answer = rng.choice(rng.choice(facts)[1])
    return [("user", " ".join([*(fact for fact, _ in facts), question])), ("assistant", answer)]


def tagged(rng: random.Random) -> Dialogue:
    """A fact for a teammate or an answer, written between tags.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    fact, questions = _fact(rng, rng.choice(NAMES), rng.choice(THINGS))
    question, answer = rng.choice(questions)
    kind = rng.choice(("message", "answer", "both"))
    if kind == "message":
        ask = rng.choice(("Tell your teammate this fact: ", "Send this to your teammate: ", "Write a message: "))
        return [("user", ask + fact), ("assistant", f"<message>{fact}</message>")]
    if kind == "answer":
        ask = f"{fact} {question} Put the answer in tags."
        return [("user", ask), ("assistant", f"<answer>{answer}</answer>")]
    ask = f"{fact} {question} Send a message and the answer."
    return [("user", ask), ("assistant", f"<message>{fact}</message>\n<answer>{answer}</answer>")]


def day_plan(rng: random.Random) -> Dialogue:
    """A plan of one to three days from the options of the request, taken in their order.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    days = rng.choice((1, 2, 2, 3))
    options = {
        "city": [invented_word(rng).capitalize() if rng.random() < 0.1 else c for c in rng.sample(CITIES, days)],
        "transport": rng.sample(TRANSPORT, days),
        "meal": rng.sample(MEALS, days),
    }
    rows = [{key: values[day] for key, values in options.items()} for day in range(days)]
    style = rng.choice(("lines", "JSON"))
    if style == "JSON":
        plan = "\n".join(json.dumps({"day": day, **row}) for day, row in enumerate(rows, 1))
    else:
        lines = ("; ".join(f"{key} {value}" for key, value in row.items()) for row in rows)
        plan = "\n".join(f"Day {day}: {line}" for day, line in enumerate(lines, 1))
    wishes = " ".join(f"{key}: {', '.join(values)}." for key, values in options.items())
    ask = f"Plan {days} day{'s' if days > 1 else ''} in {style}. {wishes}"
    return [("user", ask), ("assistant", plan)]


def arithmetic(rng: random.Random) -> Dialogue:
    """A sum, a difference or a small product.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    sign = rng.choice("++--*")
    top = 9 if sign == "*" else rng.choice((9, 20))
    a, b = rng.randint(1, top), rng.randint(1, top)
    if sign == "-" and b > a:
        a, b = b, a
    result = {"+": a + b, "-": a - b, "*": a * b}[sign]
    if rng.random() < 0.5:
        return [("user", f"What is {a} {sign} {b}?"), ("assistant", str(result))]
    return [("user", f"Work out {a} {sign} {b}."), ("assistant", f"{a} {sign} {b} = {result}")]


def copying(rng: random.Random) -> Dialogue:
    """Words to repeat, to turn round, or to pick one from.

    Args:
        rng: Source of the choices.

    Returns:
        One exchange.
    """
    words = [draw_word(rng, 0.75) for _ in range(rng.choice((1, 2, 3, 4, 5, 6)))]
    kind = rng.choice(("repeat", "repeat", "pick", "turn"))
    if kind == "pick" and len(words) > 1:
        place, index = rng.choice((("first", 0), ("second", 1), ("last", -1)))
        return [("user", f"Pick the {place} of: {', '.join(words)}."), ("assistant", words[index])]
    if kind == "turn":
        words = words[:3]
        return [("user", f"Turn round: {' '.join(words)}"), ("assistant", " ".join(reversed(words)))]
    return [("user", f"Repeat: {' '.join(words)}"), ("assistant", " ".join(words))]


KINDS: dict[str, tuple[Callable[[random.Random], Dialogue], float]] = {
    "free_text": (free_text, 20.0),
    "sized_text": (sized_text, 10.0),
    "revised_text": (revised_text, 10.0),
    "code": (code, 8.0),
    "tool_call": (tool_call, 8.0),
    "passage": (passage, 9.0),
    "tagged": (tagged, 6.0),
    "day_plan": (day_plan, 6.0),
    "arithmetic": (arithmetic, 4.0),
    "copying": (copying, 19.0),
}
"""The generator of each kind of dialogue and its share in percent."""


def dialogues(seed: int, count: int) -> Iterator[Dialogue]:
    """Makes a corpus.

    Args:
        seed: Seed of the only source of chance.
        count: Number of dialogues.

    Yields:
        The dialogues; about one in twelve starts with a system turn.
    """
    rng = random.Random(seed)
    makers = [maker for maker, _ in KINDS.values()]
    shares = [share for _, share in KINDS.values()]
    for _ in range(count):
        dialogue = rng.choices(makers, shares)[0](rng)
        if rng.random() < 0.08:
            dialogue = [("system", rng.choice(_SYSTEM)), *dialogue]
        yield dialogue
