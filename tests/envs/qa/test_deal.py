"""Deals: nobody holds all that supports an answer."""

import pytest

from comlrl_envs.qa.deal import deal, labels
from comlrl_envs.qa.forms import read_file
from comlrl_envs.qa.records import from_row
from comlrl_envs.seeding import rng

FILES = (
    "hotpotqa/hipporag_hotpotqa_train_100.json",
    "musique/hipporag_musique_train_100.json",
    "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json",
)
CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"
ROW = {"question": "Who?", "answer": "Ann", "paragraphs": list("abcdefg"), "support": [[1, 0], [4, 0]]}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.needs_data(CORPUS)
def test_a_forced_deal_never_gives_one_agent_all_support(data_dir, file):
    for record in read_file(data_dir / file, data_dir / CORPUS):
        for seed in range(20):
            for agents in (2, 3):
                hands = deal(record, agents, "forced", rng(seed, record.id))
                assert sorted(place for hand in hands for place in hand) == list(range(len(record.paragraphs)))
                assert not any(set(record.supporting) <= set(hand) for hand in hands)
                assert max(map(len, hands)) - min(map(len, hands)) <= 2


@pytest.mark.parametrize("agents", [1, 2, 3, 4])
def test_deals_are_even_seeded_and_whole(agents):
    record = from_row(ROW)
    for how in ("forced", "random"):
        hands = deal(record, agents, how, rng(0))
        assert hands == deal(record, agents, how, rng(0))
        assert sorted(sum(hands, ())) == list(range(7)) and max(map(len, hands)) - min(map(len, hands)) <= 1
    assert all(sorted(hand) == list(range(7)) for hand in deal(record, agents, "full", rng(0)))
    assert len({deal(record, 3, "forced", rng(seed)) for seed in range(20)}) > 15


def test_a_random_deal_sometimes_gives_one_agent_all_support():
    record = from_row(ROW)
    hands = [deal(record, 2, "random", rng(seed)) for seed in range(200)]
    share = sum(any({1, 4} <= set(hand) for hand in each) for each in hands) / 200
    assert 0.3 < share < 0.55


def test_a_record_that_one_agent_could_answer_is_not_dealt():
    with pytest.raises(ValueError, match="two or more"):
        deal(from_row({**ROW, "support": [2]}), 2, "forced", rng(0))


def test_labels_are_all_numbers_in_an_order_of_chance():
    record = from_row(ROW)
    assert sorted(labels(record, rng(0))) == list(range(1, 8))
    assert labels(record, rng(0)) == labels(record, rng(0)) != labels(record, rng(1))
