/** KVUE: randomised response on the state of one key, which follows from the report's id. */
import { read, symbol, trueState } from "../mechanisms.js";
import { publicIndex } from "../wire.js";

export function kvue({ schema, epsilon, options }) {
  const labels = schema.labels(options);
  read(options, labels.takes);
  const channel = trueState(1 + labels.count, epsilon);
  const respond = (pairs, word, coins) => {
    const key = publicIndex(word, schema.d);
    const held = pairs.find((pair) => pair[0] === key);
    return channel.draw(held ? 1 + labels.draw(held[1], coins, key) : 0, coins);
  };
  return { ratio: channel.ratio, codec: symbol(1 + labels.count), respond };
}
