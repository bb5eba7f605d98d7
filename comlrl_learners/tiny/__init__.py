"""The model behind ``policies="tiny"``: 1.93 million parameters that answer short instructions.

A Qwen2 model (hidden 192, 4 layers, 4 heads on 2 key-value heads, tied embeddings) over a byte-level vocabulary, stored
in half precision: less than 4 MB with its tokenizer. It was trained from random weights on ``corpus``, templated
dialogues written for this project: texts about a topic in one to six sentences, briefly and in detail, rewritten longer
or shorter; small functions and helpers; tool calls; answers from a passage; messages in tags; day plans; sums; copying.
The corpus speaks of no length ratio and no reward, and holds none of the writing family's evaluation topics.

Recipe: the loss counts the assistant's turns, end token included; AdamW at 2e-3 with warm-up and cosine decay; 4,800
steps, 20 CPU minutes on one core. The last batch's loss is 0.287, that of 2,000 new dialogues 0.284. Make it again with

    python -m comlrl_learners.tiny.make_tiny --out DIR --steps 4800

Greedy answers that match word for word, of 128 new dialogues each: tool calls 1.00, code .99, day plans .97, copying
.95, messages in tags .88, answers from a passage .48 (often the other person's), arithmetic .10 (it knows the form).
Asked to write about a topic it never saw, it names it in 96 % of texts at temperature 0.8, and ends each by itself:
68 characters in 20 tokens on average; 38 characters when asked to be brief, 132 in detail. Two independent texts score
.45 on ``writing/length_ratio``.

    Write about islands.     Our town is known for islands. The old songs speak of islands. They may look simple at
                             first.
    Write about mushrooms.   The world needs mushrooms.
    Write about dolphins. Answer briefly.     Some dolphins can surprise us.
    Write about dolphins. Answer in detail.   Some dolphins can surprise us. They can make a long day short. My brother
                                              has a song about dolphins.
    Tell me about gravity.   A day with gravage can be a good day.
"""

from __future__ import annotations

from pathlib import Path

TINY_PATH: Path = Path(__file__).parent / "weights"
"""Folder of the model and its tokenizer, for ``from_pretrained``."""
