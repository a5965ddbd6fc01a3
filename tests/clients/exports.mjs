// The names that the client exports, and the methods of its device that do not begin with _.
import * as node from "../../clients/javascript/node.js";

const base = Object.getPrototypeOf(node.Device.prototype);
const methods = Object.getOwnPropertyNames(base).filter((name) => !name.startsWith("_") && name !== "constructor");
console.log(JSON.stringify({ names: Object.keys(node), methods }));
