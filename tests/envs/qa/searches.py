"""Episodes of a search by three, for tests."""

from comlrl_envs.game import TextGame
from comlrl_envs.qa.demo.invented_things import invented_things
from comlrl_envs.qa.retrieve_answer import RetrieveAnswer, pooled
from comlrl_envs.tasks import Task, TaskSet

from .players import tasks_of

QUIET = "<message></message>"
ROW = {
    "id": "kite",
    "question": "Where is the thing that Mira lost?",
    "answers": ["attic", "in the attic"],
    "paragraphs": [
        {"title": "Mira", "sentences": ["Mira is tall.", " Mira lost the kite."]},
        {"title": "Tom", "sentences": ["Tom keeps a red kite in the attic."]},
        {"title": "Ida", "sentences": ["Ida lost a hat in the hall."]},
        {"title": "Leo", "sentences": ["Leo lost nothing."]},
        {"title": "Rosa", "sentences": ["Rosa keeps a lamp."]},
    ],
    "support": [[0, 1], [1, 0]],
    "scorer": "musique",
}


def corpus_of(tasks):
    return pooled(TaskSet([{**task.fields, "id": task.id} for task in tasks]))["corpus"]


def game(tasks, **settings):
    return TextGame(RetrieveAnswer(**{"corpus": corpus_of(tasks), **settings}))


def demo(split="eval"):
    return tasks_of(invented_things(split))


def start(row=ROW, **settings):
    task = Task(row["id"], row)
    rules = game([task], **settings)
    return rules, rules.start_many([task], [0])[0]


def step(rules, episode, **said):
    (after,) = rules.step_many([(episode, {agent: said.get(agent, QUIET) for agent in rules.acting(episode)})])
    return after


def number(episode, title):
    """The number under which a document is shown."""
    return next(n for n, pid in enumerate(episode.state.found, start=1) if ROW["paragraphs"][pid]["title"] == title)
