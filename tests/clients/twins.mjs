// The scripts of test_twins.py, walked by the device in JavaScript: what each call gave, and the ledger at the end.
import { readFileSync } from "node:fs";
import { Coins, Device, KeyveilError, MemoryStorage } from "../../clients/javascript/node.js";

const answer = (status, said, type = "application/json") => ({ status, headers: new Headers({ "content-type": type }), body: Buffer.from(JSON.stringify(said)) });
const refusal = (status, code) => answer(status, { code }, "application/problem+json");
const ANSWERS = {
  accept: () => answer(200, { accepted: 1, duplicates: 0, refused: [] }),
  lose: () => { throw new KeyveilError("transport/unreachable"); },
  closed: () => refusal(409, "round/closed"),
  token: () => refusal(401, "enrolment/needed"),
};
const told = ({ state, round, epsilon, report, code, used, opens }) => ({ state, round, epsilon, report, code, used, opens });
const CALLS = {
  explain: async (device, { name }) => {
    const { consent, agreed, refusal, epsilon } = await device.explain(name);
    return { consent, agreed, refused: refusal !== null, epsilon };
  },
  consent: async (device, { name }) => void (await device.consent(name)),
  report: async (device, { name, record, token }) => told(await device.report(name, record, { token })),
  withdraw: (device, { name }) => device.withdraw(name),
  flush: async (device) => (await device.flush()).map(told),
  limit: async (device, { changes, loosen }) => void (await device.limit(changes, loosen)),
  trust: async (device) => void (await device.trustClock()),
};

const walked = [];
for (const script of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  let [views, behaviour, day] = [{}, "accept", "2026-11-20"];
  const transport = {
    request: async (method, path) => {
      const view = views[path.split("/")[3]];
      if (method === "POST") return ANSWERS[behaviour]();
      return view ? answer(200, view) : refusal(404, "campaign/unknown");
    },
  };
  const coins = new Coins((count) => new Uint8Array(count));
  const now = () => new Date(`${day}T12:00:00Z`);
  const device = new Device({ storage: new MemoryStorage(), transport, coins, now, patience: { pace: 0, tries: 1 }, sleep: async () => {} });
  const results = [];
  for (const step of script) {
    if (step.do === "serve") views = { ...views, [step.name]: step.view };
    else if (step.do === "day") day = step.day;
    else if (step.do === "behave") behaviour = step.behaviour;
    else
      try {
        results.push((await CALLS[step.do](device, step)) ?? null);
      } catch (error) {
        results.push({ refused: error.code ?? `${error.stack}` });
      }
  }
  const ledger = (await device.ledger()).map(({ day, epsilon, report, free, round, campaign, state }) => ({ day, epsilon, report, free, round, campaign, state }));
  walked.push({ results, ledger });
}
console.log(JSON.stringify(walked));
