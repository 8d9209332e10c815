// Values through the serialisers of @confluentinc/schemaregistry: jobs come on stdin, bytes go to stdout.
const fs = require("fs");
const avsc = require("avsc");
const { createFileRegistry, createMutableRegistry, fromBinary } = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const registry = require("@confluentinc/schemaregistry");

const { jobs, url } = JSON.parse(fs.readFileSync(0));
const client = new registry.SchemaRegistryClient({ baseURLs: [url] });

async function serialiser(job) {
  const conf = job.headers ? { schemaIdSerializer: registry.HeaderSchemaIdSerializer } : {};
  if (job.kind === "protobuf") {
    const files = fromBinary(FileDescriptorSetSchema, Buffer.from(job.schema, "base64"));
    const message = createFileRegistry(files).getMessage(job.message);
    conf.registry = createMutableRegistry(message);
    const made = new registry.ProtobufSerializer(client, registry.SerdeType.VALUE, conf);
    return [made, (data) => fromBinary(message, data)];
  }
  // Left to itself it would write a schema of its own for a value.
  const type = job.kind === "avro" ? "AVRO" : "JSON";
  await client.register(`${job.topic}-value`, { schema: job.schema, schemaType: type });
  Object.assign(conf, { autoRegisterSchemas: false, useLatestVersion: true });
  if (job.kind === "avro") {
    const parsed = avsc.Type.forSchema(JSON.parse(job.schema));
    const made = new registry.AvroSerializer(client, registry.SerdeType.VALUE, conf);
    return [made, (data) => parsed.fromBuffer(data)];
  }
  const made = new registry.JsonSerializer(client, registry.SerdeType.VALUE, conf);
  return [made, (data) => JSON.parse(data)];
}

async function main() {
  const done = [];
  for (const job of jobs) {
    const [made, parse] = await serialiser(job);
    for (const value of job.values) {
      const headers = {};
      const data = await made.serialize(job.topic, parse(Buffer.from(value, "base64")), headers);
      const named = Object.entries(headers).map(([key, text]) => [key, text.toString("base64")]);
      done.push({ topic: job.topic, value: data.toString("base64"), headers: named });
    }
  }
  process.stdout.write(JSON.stringify(done));
}

main();
