/** Names of the format that this device does not answer, so that a refusal says why: with the code of other devices. */
import { demand, refuse } from "./errors.js";
import { compare, ZERO } from "./exact.js";
import { exactly, read } from "./options.js";
import { GRID } from "./schema.js";

const CHOOSY = "grr sue oue olh ss hr rappor shist duchi piecewise hybrid square-wave mean-est";
const OTHERS =
  "privkv f2m kvoh ioh moments marginals kv-sw krr-harmony shist-harmony rappor-meanest collision privkvm privkvm-plus " +
  "privkvm-star adaptive topsel-project privkvm-harmony privkvm-meanest hierarchy coordinates";

const choosy = ({ name }) => refuse("device/mechanism", `${name} cannot take every record, so answering at all would tell.`);
const unknown = ({ name }) => refuse("mechanism/unknown", `This device does not answer ${name}.`);

/** The rounds of PrivKVM: what is announced to them is checked before they are refused. */
function privkvRound(asked) {
  const { schema, epsilon, options } = asked;
  const { key_epsilon, fake } = read(options, { key_epsilon: exactly, fake: (means) => means });
  const fits = compare(key_epsilon, ZERO) >= 0 && compare(key_epsilon, epsilon) <= 0;
  demand(fits && fake.every((mean) => typeof mean === "number"), "mechanism/option");
  demand([0, schema.d].includes(fake.length) && fake.every((mean) => Math.abs(mean) <= GRID), "protocol/broadcast");
  unknown(asked);
}

const called = (names, program) => Object.fromEntries(names.split(" ").map((name) => [name, program]));
choosy.stranger = unknown.stranger = true;
unknown.plan = unknown; // several rounds, of which some are known

export const strangers = { ...called(CHOOSY, choosy), ...called(OTHERS, unknown), "privkv-round": privkvRound };
