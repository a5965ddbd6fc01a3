import { beside, split } from "./groups.js";
import { apart, presenceGroup, projection } from "./mechanisms/apart.js";
import { block } from "./mechanisms/block.js";
import { kvue } from "./mechanisms/kvue.js";
import { pckvGrr, pckvUe } from "./mechanisms/pckv.js";
import { overflow, setSize } from "./mechanisms/sizes.js";
import { ssr } from "./mechanisms/ssr.js";
import { topsel } from "./mechanisms/topsel.js";
import { wheel } from "./mechanisms/wheel.js";
import { wsr } from "./mechanisms/wsr.js";
import { heldGroups, others, pilot } from "./client/rounds.js";

const capped = { ssr, wsr, wheel, "pckv-ue": pckvUe, "pckv-grr": pckvGrr, apart };

export const mechanisms = {
  ...others,
  ...Object.fromEntries(Object.entries(capped).map(([name, program]) => [name, beside(program)])),
  ...{ kvue, topsel, block, split: Object.assign(split, { held: heldGroups }), pilot },
  ...{ overflow, "set-size": setSize, "presence-group": presenceGroup, "value-projection": projection },
};
