"""The contract that every mechanism keeps, for mechanisms of your own.

    from keyveil.testing import check_mechanism

    print(check_mechanism(MyMechanism))     # or an object, or a registered name; raises ContractError if one is broken

Each check is also a function of its own, so that a test suite can name them one by one. They need SciPy
(``pip install 'keyveil[local]'``), and no test framework.
"""

from __future__ import annotations

from keyveil.testing.accuracy import errors_are_as_stated as errors_are_as_stated
from keyveil.testing.accuracy import joint_errors_are_as_stated as joint_errors_are_as_stated
from keyveil.testing.capabilities import CAPABILITY_CHECKS as CAPABILITY_CHECKS
from keyveil.testing.identity import documents_make_the_same_mechanism as documents_make_the_same_mechanism
from keyveil.testing.identity import fingerprints_tell_mechanisms_apart as fingerprints_tell_mechanisms_apart
from keyveil.testing.laws import bulk_draws_have_the_law as bulk_draws_have_the_law
from keyveil.testing.laws import devices_do_at_full_size_what_bulk_does as devices_do_at_full_size_what_bulk_does
from keyveil.testing.laws import privacy_by_enumeration as privacy_by_enumeration
from keyveil.testing.laws import single_draws_have_the_law as single_draws_have_the_law
from keyveil.testing.laws import tightness as tightness
from keyveil.testing.members import members_are_there as members_are_there
from keyveil.testing.reports import parts_add_up as parts_add_up
from keyveil.testing.reports import reports_are_what_devices_draw as reports_are_what_devices_draw
from keyveil.testing.reports import reports_travel as reports_travel
from keyveil.testing.suite import CheckedContract as CheckedContract
from keyveil.testing.suite import check_mechanism as check_mechanism
