/** All mechanisms that this device answers, by the names that documents have for them. */
import { apart, presenceGroup, valueProjection } from "./mechanisms/apart.js";
import { block } from "./mechanisms/block.js";
import { kvue } from "./mechanisms/kvue.js";
import { pckvGrr, pckvUe } from "./mechanisms/pckv.js";
import { ssr } from "./mechanisms/ssr.js";
import { topsel } from "./mechanisms/topsel.js";
import { wheel } from "./mechanisms/wheel.js";
import { wsr } from "./mechanisms/wsr.js";

export const mechanisms = {
  ssr,
  kvue,
  topsel,
  wsr,
  wheel,
  "pckv-ue": pckvUe,
  "pckv-grr": pckvGrr,
  block,
  apart,
  "presence-group": presenceGroup,
  "value-projection": valueProjection,
};
