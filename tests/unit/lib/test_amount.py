import pytest

from multiqueue.lib.amount import LARGEST, SMALLEST, UNLIMITED, add, clamp, multiply, subtract


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(add(2, 3), 5, id="bounded amounts add up"),
        pytest.param(add(UNLIMITED, -5), UNLIMITED, id="unlimited plus anything is unlimited"),
        pytest.param(add(5, UNLIMITED), UNLIMITED, id="anything plus unlimited is unlimited"),
        pytest.param(add(LARGEST, LARGEST), UNLIMITED, id="a sum that overflows saturates"),
        pytest.param(subtract(7, 3), 4, id="bounded amounts subtract"),
        pytest.param(subtract(UNLIMITED, 3), UNLIMITED, id="unlimited survives subtraction"),
        pytest.param(subtract(3, UNLIMITED), SMALLEST, id="bounded less unlimited is the least"),
        pytest.param(subtract(UNLIMITED, UNLIMITED), 0, id="unlimited less unlimited is nothing"),
        pytest.param(subtract(SMALLEST, 1), SMALLEST, id="a difference saturates too"),
        pytest.param(multiply(3, 4), 12, id="a request times its pods"),
        pytest.param(multiply(LARGEST, 2), LARGEST, id="requests stay bounded"),
        pytest.param(clamp(2**70), UNLIMITED, id="too much is unlimited"),
    ],
)
def test_amounts_saturate(got: int, want: int) -> None:
    """E-1."""
    assert got == want
