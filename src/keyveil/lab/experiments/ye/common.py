"""What the experiments of Ye et al. 2019 share: their people, and their mechanisms as they ran them."""

from __future__ import annotations

from keyveil.lab.experiments.shape import Axis, People, Series

GAUSS, PLAW = People("gauss", n=10**6), People("plaw", n=10**6)
LNR = People("lnr", n=10**6)
APPS = People(
    "sparse",
    label="AppData",
    n=2_006_631,
    options=(("keys", 1134), ("pairs", 1.4742)),
    stands_for="AppData, which its owner keeps: as many people, keys and pairs, with a long tail",
)
TALKING = People(
    "sparse",
    label="TalkingData",
    n=60_822,
    options=(("keys", 306), ("pairs", 21.2)),
    file="talkingdata",
    stands_for="TalkingData: as many people, keys and pairs, with a long tail",
)
JDATA = People(
    "sparse",
    label="JData",
    n=105_180,
    options=(("keys", 442), ("pairs", 11.1)),
    file="jdata",
    stands_for="JData: as many people, keys and pairs, with a long tail",
)
BUDGETS = Axis("epsilon", (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4), "privacy budget ε", log=True, quick=(0.1, 0.4, 1.6, 6.4))
ROUNDS = (
    "Rounds share out the budget of values, so every round tells less: the bias falls with the rounds, and the "
    "variance grows with their square (erratum A6)."
)
NO_OUTLIERS = (
    "Both rivals of PrivKVM send much the same bits as it does; what it adds is that it corrects estimates beyond "
    "[-1, 1], and here everybody's means are cut to [-1, 1] before they are compared."
)
FIVE = "rounds=1,virtual=5"

PRIVKVM = Series("PrivKVM", f"privkvm:{FIVE},estimator=published")
HARMONY = Series("PrivKVM-Harmony", f"privkvm-harmony:{FIVE},estimator=published")
MEANEST = Series("PrivKVM-MeanEst", f"privkvm-meanest:{FIVE}")
KRR = Series("k-RR", "krr-harmony:values=false")
SHIST = Series("SHist", "shist-harmony:values=false")
RAPPOR = Series("RAPPOR", "rappor-meanest:values=false")
