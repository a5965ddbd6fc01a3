"""What the experiments of Ye et al. 2019 share: their people, and their mechanisms as they ran them."""

from __future__ import annotations

from keyveil.lab.experiments.shape import Axis, People, Series

GAUSS, PLAW = People("gauss", n=10**6), People("plaw", n=10**6)
LNR = People("lnr", n=10**6)
BUDGETS = Axis(
    "epsilon", (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4), "privacy budget ε", log=True, quick=(0.1, 0.4, 1.6, 6.4)
)
FIVE = "rounds=1,virtual=5"

PRIVKVM = Series("PrivKVM", f"privkvm:{FIVE},estimator=published")
HARMONY = Series("PrivKVM-Harmony", f"privkvm-harmony:{FIVE},estimator=published")
MEANEST = Series("PrivKVM-MeanEst", f"privkvm-meanest:{FIVE}")
KRR = Series("k-RR", "krr-harmony:values=false")
SHIST = Series("SHist", "shist-harmony:values=false")
RAPPOR = Series("RAPPOR", "rappor-meanest:values=false")
