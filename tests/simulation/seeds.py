"""The seeds of worlds that the tests run."""

import subprocess
from pathlib import Path
from random import Random

#: The worlds that always must succeed, and on which mutations are tried.
FIXED = range(2000)
#: Holds the seeds of the fixed worlds that the tests run. `tests.simulation.choose` writes it.
CHOSEN_FILE = Path(__file__).with_name("chosen.txt")
CHOSEN = tuple(map(int, CHOSEN_FILE.read_text(encoding="utf-8").split()))
#: Every seed beyond these whose world failed once, by a fault of the operator or of a check.
FAILED_ONCE = (
    2056,
    2885,
    5250,
    40704,
    1211081,
    1211395,
    1211563,
    9100045,
    9100461,
    9100759,
    9101047,
    9101374,
    9101892,
    9110071,
    9110753,
    9111246,
    9111483,
    9112578,
    9113110,
    9113740,
    9113741,
    9113851,
    9113873,
    9200078,
    9200101,
    9301141,
    9301169,
    22682013,
    30000053,
    30100546,
    30100946,
    32000762,
    33001261,
    33100070,
    33100227,
    34000163,
    34000915,
    34003213,
    35000740,
    35001215,
    35001543,
    35001916,
    35002857,
    36000041,
    36001124,
    36001175,
    36001680,
    36003348,
    36004710,
    36005336,
    36008257,
    36008352,
    36009917,
    36010716,
    36011909,
    36012596,
    36013297,
    36015534,
    36016793,
    36017523,
    36022355,
    36023228,
    36025142,
    36025372,
    36025861,
    36033907,
    36034367,
    36034900,
    36035108,
    36039216,
    36039868,
    36041250,
    36041941,
    36042115,
    36042862,
    36044164,
    36048991,
    36049015,
    36050929,
    36051645,
    36052392,
    36058575,
    36068008,
    36068580,
    36072996,
    36073829,
    36076017,
    36077840,
    36081535,
    36083604,
    36084354,
    36085929,
    36087398,
    36093753,
    36095741,
    36103023,
    36113287,
    36115015,
    36117389,
    37005398,
    37013426,
    37014777,
    37014861,
    37016986,
    37020198,
    37026744,
    37029267,
    37033017,
    37035055,
    37038226,
    37048670,
    37053780,
    37056833,
    37065819,
    37066369,
    37066916,
    37070965,
    38002705,
    355085532,
    489397904,
    589379928,
    713529964,
    847130119,
    849276394,
)
#: Seeds whose worlds fail now, and nobody has mended the operator or the check yet; `history.md` has what is known of them. A
#: failure is reported and blocks nothing.
UNEXPLAINED: tuple[int, ...] = ()
#: Seeds of worlds that nobody has seen, from the first to the last.
_UNSEEN = range(10_000_000, 1_000_000_000)


def commit() -> str:
    """Return the hash of the commit that is checked out; empty outside of a checkout."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, check=False, capture_output=True, text=True)
    return done.stdout.strip()


def fresh(of: str, count: int) -> list[int]:
    """Return seeds that depend on a commit alone.

    Args:
        of: The hash of the commit.
        count: How many.
    """
    return Random(of).sample(_UNSEEN, count)
