// What the client says to each round's options in a file: the fingerprint of the mechanism, or the code of its refusal.
import { readFileSync } from "node:fs";
import { build } from "../../clients/javascript/src/mechanisms.js";
import { Scales } from "../../clients/javascript/src/scales.js";
import { mechanisms } from "../../clients/javascript/src/table.js";
import { hex, parse } from "../../clients/javascript/src/wire.js";

const said = [];
for (const { mechanism, schema, epsilon, options } of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  try {
    const made = await build({ name: mechanism, schema: await Scales.read(schema), epsilon: parse(epsilon), options }, mechanisms);
    said.push(hex(made.fingerprint));
  } catch (error) {
    said.push(error.code ?? `${error.stack}`);
  }
}
console.log(JSON.stringify(said));
