"""The inverse error function by the approximations that random numbers everywhere are made with.

M. Giles, "Approximating the erfinv function", GPU Computing Gems, Jade Edition, 2012, ch. 10: x
times a polynomial in w = -log(1 - x**2), or in its root where |x| is near 1.  The single-precision
form is wrong by up to 65 ulp there, x**2 being rounded; a better one would give other normal
numbers for a key than everybody else has.  `PIECES` is shared with the native expansion.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from covector._base.named_tuple import NamedTuple


class Piece(NamedTuple):
    """A polynomial in (root of) w minus `centre`, for w below `end`; lowest order first."""

    end: float
    root: bool
    centre: float
    coefficients: tuple[float, ...]


PIECES: Final = {
    "float32": (
        Piece(5.0, False, 2.5, (
            1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
            -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
        )),
        Piece(math.inf, True, 3.0, (
            2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
            -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257,
        )),
    ),
    "float64": (
        Piece(6.25, False, 3.125, (
            1.6536545626831027356, 0.24015818242558961693, -0.0060336708714301490533,
            -0.00074070253416626697512, 0.0001867342080340571352, -1.3882523362786468719e-05,
            -1.3654692000834678645e-06, 4.2347877827932403518e-07, -2.9070369957882005086e-08,
            -4.1126339803469836976e-09, 1.051212273321532285e-09, -5.4154120542946279317e-11,
            -1.2975133253453532498e-11, 2.6335093153082322977e-12, -8.1519341976054721522e-14,
            -4.0545662729752068639e-14, 6.6376381343583238325e-15, 2.0972767875968561637e-17,
            -1.333171662854620906e-16, 1.115787767802518096e-17, 1.2858480715256400167e-18,
            -1.685059138182016589e-19, -3.6444120640178196996e-21,
        )),
        Piece(16.0, True, 3.25, (
            3.0838856104922207635, 1.0052589676941592334, 0.005370914553590063617,
            -0.0037512085075692412107, 0.0024914420961078508066, -0.0016882755560235047313,
            0.00095328937973738049703, -0.0003550375203628474796, 2.4031110387097893999e-05,
            6.8284851459573175448e-05, -4.7318229009055733981e-05, 1.2475304481671778723e-05,
            2.9234449089955446044e-06, -4.013867526981545969e-06, 1.5027403968909827627e-06,
            1.8239629214389227755e-08, -2.7517406297064545428e-07, 9.0756561938885390979e-08,
            2.2137376921775787049e-09,
        )),
        Piece(math.inf, True, 5.0, (
            4.8499064014085844221, 1.0103004648645343977, -0.00013871931833623122026,
            -0.00021503011930044477347, 7.5995277030017761139e-05, -1.9681778105531670567e-05,
            4.5260625972231537039e-06, -9.9298272942317002539e-07, 2.2900482228026654717e-07,
            -6.7711997758452339498e-08, 2.9147953450901080826e-08, -1.4960026627149240478e-08,
            7.6157012080783393804e-09, -3.7894654401267369937e-09, 1.5076572693500548083e-09,
            -2.5556418169965252055e-10, -2.7109920616438573243e-11,
        )),
    ),
}  # fmt: skip


def erf_inv_numpy(x: Any) -> Any:
    """Of any float: in float32 (narrow floats too) or float64; the square is rounded to that."""
    given = x.dtype
    kept = np.dtype(np.float64 if given == np.float64 else np.float32)
    with np.errstate(all="ignore"):
        x = x.astype(kept)
        w = -np.log1p(-(x * x).astype(np.float64))
        root, out = np.sqrt(w), np.full(x.shape, np.nan)
        for piece in reversed(PIECES[kept.name]):
            t = (root if piece.root else w) - piece.centre
            value = np.zeros(())
            for c in reversed(piece.coefficients):
                value = value * t + c
            out = np.where(w < piece.end, value, out)
        out = np.where(np.abs(x) == 1, np.inf, out) * x
    return out.astype(kept).astype(given)
