//! What the crate `rocketmq` can do, in one run: it prints a line of JSON for each message that it receives.
//!
//! Arguments: the proxy's address, the topics for normal, ordered, delayed and transactional messages, and a group.

use std::collections::HashMap;
use std::env::args;
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use tokio::sync::mpsc::unbounded_channel;

type Done = Result<(), Box<dyn Error>>;

const INVISIBLE: Duration = Duration::from_secs(60);
const DELAY_S: i64 = 5;

fn client(address: &str) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(address);
    option.set_enable_tls(false);
    option.set_timeout(Duration::from_secs(60)); // its three seconds are few on a slow machine
    option
}

fn producing(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn tell(message: &MessageView) {
    println!(
        "{{\"topic\": {:?}, \"body\": {:?}, \"tag\": {:?}, \"keys\": {:?}, \"shop\": {:?}, \"attempt\": {}, \"received\": {}}}",
        message.topic(),
        String::from_utf8_lossy(message.body()),
        message.tag().unwrap_or(""),
        message.keys(),
        message.properties().get("shop").map(String::as_str).unwrap_or(""),
        message.delivery_attempt(),
        now_s(),
    );
}

/// Receives messages until so many are acknowledged.
async fn receive(address: &str, topic: &str, group: &str, filter: FilterExpression, count: usize) -> Done {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic]);
    option.set_consumer_group(group);
    let mut consumer = SimpleConsumer::new(option, client(address))?;
    consumer.start().await?;
    let mut left = count;
    while left > 0 {
        for message in consumer.receive_with(topic, &filter, 1, INVISIBLE).await? {
            tell(&message);
            consumer.ack(&message).await?;
            left -= 1;
        }
    }
    consumer.shutdown().await?;
    Ok(())
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

async fn normal(address: &str, topic: &str, group: &str) -> Done {
    let mut producer = Producer::new(producing(topic), client(address))?;
    producer.start().await?;
    for (body, tag) in [("a chair", "red"), ("a lamp", "green")] {
        let message = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(body.into())
            .set_tag(tag)
            .set_keys(vec!["order-1"])
            .set_properties(HashMap::from([("shop", "7")]))
            .build()?;
        producer.send(message).await?;
    }
    producer.shutdown().await?;
    receive(address, topic, group, FilterExpression::new(FilterType::Tag, "red || blue"), 1).await
}

async fn ordered(address: &str, topic: &str, group: &str) -> Done {
    let mut producer = Producer::new(producing(topic), client(address))?;
    producer.start().await?;
    for number in 0..4 {
        let body = format!("a{number}").into_bytes();
        producer.send(MessageBuilder::fifo_message_builder(topic, body, "group-a").build()?).await?;
    }
    producer.shutdown().await?;
    receive(address, topic, group, all(), 4).await
}

async fn delayed(address: &str, topic: &str, group: &str) -> Done {
    let mut producer = Producer::new(producing(topic), client(address))?;
    producer.start().await?;
    let due = now_s() as i64 + DELAY_S;
    println!("{{\"due\": {due}}}");
    producer.send(MessageBuilder::delay_message_builder(topic, b"delayed".to_vec(), due).build()?).await?;
    producer.shutdown().await?;
    receive(address, topic, group, all(), 1).await
}

async fn transacted(address: &str, topic: &str, group: &str) -> Done {
    let (heard, mut asked) = unbounded_channel();
    let check = move |_: String, message: MessageView| {
        let _ = heard.send(String::from_utf8_lossy(message.body()).into_owned());
        TransactionResolution::COMMIT
    };
    let mut producer = Producer::new_transaction_producer(producing(topic), client(address), Box::new(check))?;
    producer.start().await?;
    for body in ["committed", "rolled back", "left open"] {
        let message = MessageBuilder::transaction_message_builder(topic, body.into()).build()?;
        let transaction = producer.send_transaction_message(message).await?;
        match body {
            "committed" => transaction.commit().await?,
            "rolled back" => transaction.rollback().await?,
            _ => (),
        }
    }
    println!("{{\"asked\": {:?}}}", asked.recv().await.unwrap());
    receive(address, topic, group, all(), 2).await?;
    producer.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Done {
    let arguments: Vec<String> = args().skip(1).collect();
    let [program, address, topic, group] = arguments.as_slice() else {
        return Err("arguments: a program, the proxy's address, a topic, a group".into());
    };
    match program.as_str() {
        "normal" => normal(address, topic, group).await,
        "ordered" => ordered(address, topic, group).await,
        "delayed" => delayed(address, topic, group).await,
        "transacted" => transacted(address, topic, group).await,
        other => Err(format!("there is no program {other:?}").into()),
    }
}
