"""The ten prompts that both sides of the paired benchmark are trained on.

They are the prompts of the published measurement, so figures taken here can be compared with it. The module imports
nothing: the reference runs in a virtual environment of its own, without this project's packages.
"""

PROMPTS: tuple[str, ...] = (
    "Write about a lighthouse.",
    "Write about a slow train.",
    "Write about two clever foxes.",
    "Write about rain on a tin roof.",
    "Write about a market at dawn.",
    "Write about a lost key.",
    "Write about the first snow.",
    "Write about an old clock.",
    "Write about a garden gate.",
    "Write about a paper boat.",
)

PREVIOUS_CHARS = 80
"""How many characters of an agent's last reply the second turn's prompt quotes."""


def next_prompt(prompt: str, completion: str) -> str:
    """The prompt of the second turn: the first prompt, then the start of this agent's own last reply.

    Args:
        prompt: The prompt of the first turn.
        completion: What this agent answered to it.

    Returns:
        The whole prompt of the next turn.
    """
    return f"{prompt} Previous attempt: {completion[:PREVIOUS_CHARS]} Try again:"
