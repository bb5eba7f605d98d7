"""What a user may give as `policies=`, who shares weights then, and what is said of the rest."""

import pytest
import torch

from comlrl_learners import LLMPolicy, PolicyError, SamplingParams
from comlrl_learners.policy import distinct_policies
from comlrl_learners.team import Loading, build_team, frozen_copies, save_team

from .small import policy, save
from .small_policies import trainer, weights

AGENTS = ("host", "guest", "cook")


def team_of(sources, agents=AGENTS, **sampling):
    given = SamplingParams(**{"max_new_tokens": 8, **sampling})
    return build_team(sources, agents, Loading(given, devices=dict.fromkeys(agents, "cpu")))


def storage(one):
    return next(one.model.parameters()).data_ptr()


@pytest.mark.parametrize("kind", ["tiny", "folder", "path"])
def test_one_name_gives_each_agent_a_copy_of_its_own(kind, tmp_path):
    source = {"tiny": "tiny", "folder": str(tmp_path), "path": tmp_path}[kind]
    if kind != "tiny":
        save(tmp_path)
    team = team_of(source)
    assert list(team) == list(AGENTS)
    assert len({id(one) for one in team.values()}) == len({storage(one) for one in team.values()}) == 3
    first, second, _ = team.values()
    for mine, yours in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(mine, yours)


def test_one_loaded_policy_is_shared_by_all():
    one = policy()
    team = team_of(one)
    assert all(found is one for found in team.values())
    assert distinct_policies(team) == [(one, AGENTS)]


def test_a_list_names_them_in_agent_order():
    a, b, c = (policy(seed=seed) for seed in range(3))
    assert team_of([a, b, c]) == dict(zip(AGENTS, (a, b, c), strict=True))
    assert team_of((c, b, a)) == dict(zip(AGENTS, (c, b, a), strict=True))


def test_names_in_a_list_are_loaded_one_by_one(tmp_path):
    folder = save(tmp_path, seed=3)
    team = team_of(["tiny", folder, folder])
    assert len({storage(one) for one in team.values()}) == 3
    assert team["host"].uses_chat
    assert not team["guest"].uses_chat


def test_the_same_object_twice_is_shared():
    one, other = policy(seed=1), policy(seed=2)
    assert distinct_policies(team_of([one, other, one])) == [(one, ("host", "cook")), (other, ("guest",))]
    assert distinct_policies(team_of({"cook": one, "host": other, "guest": one})) == [
        (other, ("host",)),
        (one, ("guest", "cook")),
    ]


def test_a_dict_names_them_by_agent_whatever_its_order():
    one, other, third = (policy(seed=seed) for seed in range(3))
    team = team_of({"cook": third, "guest": other, "host": one})
    assert list(team.items()) == [("host", one), ("guest", other), ("cook", third)]


def test_what_is_loaded_takes_the_trainers_sampling_and_a_loaded_policy_keeps_its_own():
    mine = policy(temperature=0.5)
    team = team_of({"host": "tiny", "guest": mine, "cook": mine}, temperature=0.9)
    assert team["host"].sampling == SamplingParams(max_new_tokens=8, temperature=0.9)
    assert team["guest"].sampling.temperature == 0.5


def test_the_named_dtype_is_loaded():
    team = build_team("tiny", ("host",), Loading(SamplingParams(max_new_tokens=8), "bfloat16"))
    assert {p.dtype for p in team["host"].model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_list_of_another_length_is_refused(count):
    with pytest.raises(
        PolicyError, match=rf"lists {count} entries for a team of 3 \(host, guest, cook\).*single entry"
    ):
        team_of(["tiny"] * count)


def test_an_unknown_agent_gets_the_closest_name():
    with pytest.raises(PolicyError, match=r"agent 'gest'.*\['host', 'guest', 'cook'\].*Did you mean 'guest'\?"):
        team_of({"host": "tiny", "gest": "tiny", "cook": "tiny"})


def test_a_forgotten_agent_is_named():
    with pytest.raises(PolicyError, match=r"no entry for \['guest', 'cook'\].*one policy for each"):
        team_of({"host": "tiny"})


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: [m, m, m], lambda m: dict.fromkeys(AGENTS, m)])
def test_a_bare_model_is_refused_with_the_remedy(wrap):
    with pytest.raises(PolicyError, match=r"LLMPolicy\(model, tokenizer\)"):
        team_of(wrap(policy().model))


@pytest.mark.parametrize("given", [3, None, 1.5])
def test_what_is_no_policy_at_all_is_named(given):
    with pytest.raises(PolicyError, match=rf"is a {type(given).__name__}"):
        team_of(given)


def test_a_missing_folder_or_model_id_is_named(tmp_path):
    with pytest.raises(PolicyError, match=r"'nobody/nothing-here' holds no .* that can be loaded.*\"tiny\""):
        team_of("nobody/nothing-here")
    with pytest.raises(PolicyError, match=rf"folder '{tmp_path}' holds no"):
        team_of(str(tmp_path))


def test_frozen_copies_share_what_the_team_shares_and_learn_nothing():
    one, other = policy(seed=1), policy(seed=2)
    team = {"host": one, "guest": other, "cook": one}
    frozen = frozen_copies(team, sampled_from=team)
    assert list(frozen) == list(AGENTS)
    assert frozen["host"] is frozen["cook"]
    assert storage(frozen["host"]) != storage(one)
    assert not any(p.requires_grad for copied in frozen.values() for p in copied.model.parameters())
    assert all(p.requires_grad for p in one.model.parameters())


def test_a_saved_team_loads_and_a_shared_policy_is_saved_once(tmp_path):
    one, other = policy(seed=1), policy(seed=2)
    save_team({"host": one, "guest": other, "cook": one}, tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["guest", "host", "team.json"]
    loaded = LLMPolicy.load(tmp_path / "host", one.sampling)
    for mine, yours in zip(loaded.model.parameters(), one.model.parameters(), strict=True):
        assert torch.equal(mine.cpu(), yours)


def test_separate_copies_part_in_training_and_a_shared_policy_stays_one():
    apart = trainer(policies="tiny")
    apart.train()
    first, second = weights(apart).values()
    assert not torch.equal(first, second)
    shared = trainer(policies=policy())
    shared.train()
    first, second = weights(shared).values()
    assert torch.equal(first, second)


def test_a_policy_whose_weights_are_all_frozen_is_refused():
    frozen = policy()
    frozen.model.requires_grad_(False)
    with pytest.raises(PolicyError, match=r"policy of summarizer, elaborator has no weight.*requires_grad_\(True\)"):
        trainer(policies=frozen)
