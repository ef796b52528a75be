"""What a schema is in Avro, JSON Schema and Protobuf: parsed, told apart, compared."""
