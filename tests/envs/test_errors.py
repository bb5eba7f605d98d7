import pickle

import pytest

import comlrl_envs
from comlrl_envs import errors
from comlrl_envs.errors import InfrastructureError, MissingExtraError, closest


def test_one_base_and_few_classes():
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert len(classes) <= 10
    assert all(issubclass(c, comlrl_envs.ComlrlError) for c in classes)


@pytest.mark.parametrize("error", [InfrastructureError("t1", "gone"), MissingExtraError("openai", "Expert feedback")])
def test_errors_cross_processes(error):
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error) and str(twin) == str(error) and vars(twin) == vars(error)


def test_messages():
    assert 'pip install "comlrl-envs[openai]"' in str(MissingExtraError("openai"))
    assert "'t1'" in str(InfrastructureError("t1")) and InfrastructureError("t1").task == "t1"


def test_closest():
    assert closest("lenght", ["length", "width"]) == " Did you mean 'length'?"
    assert closest("zzz", ["length"]) == ""
