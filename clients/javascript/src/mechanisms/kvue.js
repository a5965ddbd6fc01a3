/** KVUE: randomised response on the state of one key, which follows from the report's id. */
import { read, symbol, trueState } from "../mechanisms.js";
import { index } from "../wire.js";

export function kvue({ schema, epsilon, options }) {
  const labels = schema.labels(options);
  read(options, labels.takes);
  const channel = trueState(1 + labels.count, epsilon);
  const respond = (pairs, word, coins) => {
    const key = index(word, schema.d);
    const value = new Map(pairs).get(key);
    return channel.draw(value === undefined ? 0 : 1 + labels.draw(value, coins, key), coins);
  };
  return { ratio: channel.ratio, codec: symbol(1 + labels.count), respond };
}
