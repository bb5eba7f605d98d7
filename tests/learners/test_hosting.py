"""`hf:PATH`: a local model behind the environments' own tools."""

import pytest

from comlrl_envs import OptionError, make
from comlrl_envs.evaluation import evaluate
from comlrl_envs.policies import build_policy, is_policy, usage_of
from comlrl_envs.seeding import rng
from comlrl_learners.errors import ConfigError, PolicyError
from comlrl_learners.hosting import HostedPolicy

TINY = "hf:tiny?max_new_tokens=12"


@pytest.fixture(scope="module")
def hosted():
    return build_policy(TINY)


def chat(text):
    return [{"role": "user", "content": text}]


def test_the_entry_point_loads_the_shipped_model(hosted):
    assert isinstance(hosted, HostedPolicy)
    assert is_policy(hosted)
    assert hosted.settings()["source"] == "tiny"
    assert hosted.settings()["max_new_tokens"] == 12


def test_replies_count_their_tokens_and_follow_the_generator(hosted):
    chats = [chat("Write about bees."), chat("Write about rain.")]
    replies = hosted.act_chat(chats, "summarizer", rng(1))
    assert all(1 <= usage_of(reply).completion_tokens <= 12 for reply in replies)
    assert usage_of(replies[0]).prompt_tokens == len(hosted.model.encode(chats[0]).ids)
    assert hosted.act_chat(chats, "summarizer", rng(1)) == replies
    assert hosted.act_chat(chats, "summarizer", rng(2)) != replies


def test_a_reply_does_not_depend_on_the_batch(hosted):
    env = make("writing/length_ratio", split="eval")
    episodes = env.game.start_many([env.tasks[i] for i in range(4)], [7, 8, 9, 10])
    together = hosted.act_episodes(env.game, episodes, "summarizer", rng(0))
    alone = [hosted.act_episodes(env.game, [episode], "summarizer", rng(5))[0] for episode in episodes]
    assert together == alone
    assert hosted.act_episodes(env.game, episodes, "elaborator", rng(0)) != together


def test_a_team_of_it_is_evaluated(hosted, tmp_path):
    one, other = (
        evaluate("writing/length_ratio", TINY, episodes=6, batch_size=size, out=tmp_path / str(size)) for size in (6, 4)
    )
    assert one.reward == other.reward
    assert one.completion_tokens > 2
    assert one.settings["policies"]["summarizer"]["spec"] == TINY
    assert 0 < one.reward.mean <= 1


def test_discussion_asks_it_twice(hosted):
    report = evaluate("writing/length_ratio", hosted, episodes=4, protocol="discussion")
    turn = report.records[0].turns[0]
    assert set(turn.drafts) == set(turn.replies)
    assert turn.drafts != turn.replies
    assert report.completion_tokens > evaluate("writing/length_ratio", hosted, episodes=4).completion_tokens


@pytest.mark.parametrize(
    ("spec", "error", "named"),
    [
        ("hf:tinny", PolicyError, "tiny"),
        ("hf:tiny?temprature=1", OptionError, "temperature"),
        ("hf:tiny?top_k=many", OptionError, "int"),
        ("hf:tiny?top_p=2", ConfigError, "top_p"),
        ("hf", OptionError, "hf:MODEL"),
    ],
)
def test_slips_are_named(spec, error, named):
    with pytest.raises(error, match=named):
        build_policy(spec)


def test_a_loaded_policy_is_evaluated_and_known_by_its_weights(tmp_path):
    from comlrl_envs.evaluation import evaluate

    from .small import policy

    one, other = policy(seed=1, max_new_tokens=4), policy(seed=2, max_new_tokens=4)
    first = evaluate("writing/length_ratio", one, episodes=2, out=tmp_path)
    assert evaluate("writing/length_ratio", one, episodes=2, out=tmp_path).reward == first.reward
    with pytest.raises(OptionError, match="weights"):
        evaluate("writing/length_ratio", other, episodes=2, out=tmp_path)
