"""Topics of the writing family's demo sets.

The two splits share no topic, and the corpus of the shipped tiny policy is written without the held-out
ones, so an evaluation on them measures what carries over to topics that were never seen.
"""

TRAIN_TOPICS: tuple[str, ...] = (
    "bees", "rivers", "bread", "lighthouses", "trains", "glass", "clocks", "gardens", "snow", "paper",
    "tea", "bridges", "whales", "kites", "maps", "candles", "mountains", "libraries", "windmills", "foxes",
    "wool", "salt", "rain", "ships", "owls", "forests", "drums", "markets", "apples", "robots",
    "deserts", "honey", "letters", "volcanoes", "bicycles", "spiders", "castles", "soup", "mirrors", "farms",
    "comets", "turtles", "violins", "harbours", "bricks", "penguins", "cheese", "telescopes", "ladders", "rice",
    "tunnels", "butterflies", "museums", "ropes", "wolves", "pottery", "clouds", "engines", "onions", "shoes",
)  # fmt: skip

EVAL_TOPICS: tuple[str, ...] = (
    "gravity", "pianos", "camels", "islands", "umbrellas", "coffee", "glaciers", "puppets", "stars", "pumpkins",
    "elevators", "swans", "carpets", "thunder", "stamps", "dolphins", "olives", "statues", "caves", "balloons",
    "needles", "horses", "rockets", "mushrooms", "fountains", "feathers", "lemons", "canals", "magnets", "parrots",
)  # fmt: skip
