// Programs of RocketMQ's own client for Node.js, which run one after the other: see ../programs.py, whose
// orders and answers these are.

'use strict';

const { createInterface } = require('node:readline');
const { Producer, SimpleConsumer, PushConsumer, FilterExpression, ConsumeResult } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const INVISIBLE_MS = 10_000; // the shortest that a proxy allows
const SOON_MS = 1_000;
const POLLING_MS = 15_000;
const PATIENCE_MS = 120_000; // the client's three seconds are few on a slow machine
const DELAY_MS = 8_000; // a recall comes before that on a slow machine, too

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const options = (address) => ({
  endpoints: address, namespace: '', logger: silent, requestTimeout: PATIENCE_MS,
});

async function withProducer(address, topic, use, checker) {
  const producer = new Producer({ ...options(address), topic, checker });
  await producer.startup();
  await use(producer);
  await producer.shutdown();
}

async function withConsumer(address, topic, group, use, filter = new FilterExpression('*')) {
  const subscriptions = new Map([[topic, filter]]);
  const consumer = new SimpleConsumer({
    ...options(address), consumerGroup: group, subscriptions, awaitDuration: POLLING_MS,
  });
  await consumer.startup();
  await use(consumer);
  await consumer.shutdown();
}

function messageOf(topic, { body, tag, keys, properties, message_group }) {
  return {
    topic,
    body: Buffer.from(body),
    tag,
    keys: keys && [keys],
    properties: properties && new Map(Object.entries(properties)),
    messageGroup: message_group,
  };
}

function lineOf(message) {
  return {
    body: message.body.toString(),
    message_id: message.messageId,
    tag: message.tag,
    keys: [...message.keys].sort(),
    properties: Object.fromEntries(message.properties),
    attempt: message.deliveryAttempt,
    corrupted: Boolean(message.corrupted),
    received: Date.now() / 1000,
  };
}

const programs = {
  async send(tell, address, topic, ...messages) {
    await withProducer(address, topic, async (producer) => {
      for (const text of messages) {
        const receipt = await producer.send(messageOf(topic, JSON.parse(text)));
        tell({ message_id: receipt.messageId, offset: receipt.offset });
      }
    });
  },

  async receive(tell, address, topic, group, count, expression = '*', kind = 'TAG') {
    const filter = new FilterExpression(expression, FilterType[kind]);
    await withConsumer(address, topic, group, async (consumer) => {
      for (let left = Number(count); left > 0;) {
        for (const message of await consumer.receive(32, INVISIBLE_MS)) {
          await consumer.ack(message);
          left -= 1;
          tell(lineOf(message));
        }
      }
    }, filter);
  },

  async fail(tell, address, topic, group, count) {
    await withConsumer(address, topic, group, async (consumer) => {
      for (let left = Number(count); left > 0;) {
        for (const message of await consumer.receive(1, INVISIBLE_MS)) {
          await consumer.changeInvisibleDuration(message, SOON_MS);
          left -= 1;
          tell(lineOf(message));
        }
      }
      tell({ then: (await consumer.receive(1, INVISIBLE_MS)).length });
    });
  },

  async recall(tell, address, topic) {
    await withProducer(address, topic, async (producer) => {
      const due = Math.floor(Date.now() / 1000) * 1000 + DELAY_MS;
      const send = (body) =>
        producer.send({ topic, body: Buffer.from(body), deliveryTimestamp: new Date(due) });
      const first = await send('recalled');
      await send('delayed');
      const recalled = await producer.recallMessage(topic, first.recallHandle);
      tell({ is_the_first: recalled.messageId === first.messageId, due: due / 1000 });
    });
  },

  async consume(tell, address, topic, group, count, failing) {
    let left = Number(count);
    await new Promise((resolve, reject) => {
      const consumer = new PushConsumer({
        ...options(address),
        consumerGroup: group,
        subscriptions: new Map([[topic, '*']]),
        messageListener: {
          async consume(message) {
            const line = lineOf(message);
            if (left > 0) tell(line);
            left -= 1;
            if (left === 0) resolve(consumer);
            return line.body === failing ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
          },
        },
      });
      consumer.startup().catch(reject);
    }).then((consumer) => consumer.shutdown());
  },

  async transact(tell, address, topic, group) {
    let heard;
    const asked = new Promise((resolve) => { heard = resolve; });
    const checker = { async check(message) { heard(message); return TransactionResolution.COMMIT; } };
    await withProducer(address, topic, async (producer) => {
      for (const body of ['committed', 'rolled back', 'left open']) {
        const transaction = producer.beginTransaction();
        await producer.send({ topic, body: Buffer.from(body) }, transaction);
        if (body === 'committed') await transaction.commit();
        if (body === 'rolled back') await transaction.rollback();
      }
      tell({ asked: lineOf(await asked) });
      await programs.receive(tell, address, topic, group, '2');
    }, checker);
  },
};

async function run(order) {
  const say = (answer) => process.stdout.write(`${JSON.stringify({ id: order.id, ...answer })}\n`);
  let failure = '';
  try {
    await programs[order.program]((line) => say({ line: JSON.stringify(line) }), ...order.arguments);
  } catch (error) {
    failure = `${error.stack}`;
  }
  say({ failure, clients: [] });
}

async function main() {
  for await (const text of createInterface({ input: process.stdin })) await run(JSON.parse(text));
}

main();
