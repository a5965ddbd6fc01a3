import type { Facts } from "./index.js";

/** What `Device.explain` found, in English; text from elsewhere loses what could steer a terminal or a page. */
export function explained(facts: Facts): string;

/** Words for the codes with which a campaign is refused. */
export const reasons: Record<string, string>;
