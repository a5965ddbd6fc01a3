/** All that this device answers; each program is one short module. */
import { beside, split } from "./groups.js";
import { held } from "./held.js";
import { HELD, OVERFLOW } from "./mechanisms.js";
import { apart, presenceGroup, valueProjection } from "./mechanisms/apart.js";
import { block } from "./mechanisms/block.js";
import { kvue } from "./mechanisms/kvue.js";
import { pckvGrr, pckvUe } from "./mechanisms/pckv.js";
import { overflow, setSize } from "./mechanisms/sizes.js";
import { ssr } from "./mechanisms/ssr.js";
import { topsel } from "./mechanisms/topsel.js";
import { wheel } from "./mechanisms/wheel.js";
import { wsr } from "./mechanisms/wsr.js";
import { pilot } from "./pilot.js";
import { strangers } from "./strangers.js";

export const mechanisms = {
  ...strangers,
  ...{ ssr, kvue, topsel, wsr, wheel, "pckv-ue": pckvUe, "pckv-grr": pckvGrr, block, apart, split, pilot },
  ...{ overflow, "set-size": setSize, "presence-group": presenceGroup, "value-projection": valueProjection },
  [OVERFLOW]: beside,
  [HELD]: held,
};
