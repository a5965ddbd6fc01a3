/** Names of the format that this device does not answer, so that a refusal says why: with the code of other devices. */
import { demand } from "./errors.js";
import { atMost } from "./exact.js";
import { exactly } from "./groups.js";
import { read } from "./mechanisms.js";
import { GRID } from "./schema.js";

const CHOOSY = "grr sue oue olh ss hr rappor shist duchi piecewise hybrid square-wave mean-est";
const OTHERS =
  "privkv f2m kvoh ioh moments marginals kv-sw krr-harmony shist-harmony rappor-meanest collision privkvm privkvm-plus " +
  "privkvm-star adaptive topsel-project privkvm-harmony privkvm-meanest hierarchy coordinates";

const choosy = ({ name }) => demand(false, "device/mechanism", `${name} cannot take every record, so answering at all would tell.`);
const unknown = () => demand(false, "mechanism/unknown");

/** What is announced to rounds of PrivKVM is checked first. */
function privkvRound({ schema, epsilon, options }) {
  const { key_epsilon, fake } = read(options, { key_epsilon: exactly, fake: (means) => means });
  const fits = key_epsilon[0] >= 0n && atMost(key_epsilon, epsilon);
  demand(fits && fake.every((mean) => typeof mean === "number"), "mechanism/option");
  demand([0, schema.d].includes(fake.length) && fake.every((mean) => Math.abs(mean) <= GRID), "protocol/broadcast");
  return unknown();
}

const called = (names, program) => Object.fromEntries(names.split(" ").map((name) => [name, program]));
choosy.stranger = unknown.stranger = true;
unknown.plan = unknown; // several rounds, of which some are known

export const strangers = { ...called(CHOOSY, choosy), ...called(OTHERS, unknown), "privkv-round": privkvRound };
