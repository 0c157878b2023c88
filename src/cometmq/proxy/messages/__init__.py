"""Messages of gRPC clients: checked, stored and delivered; their ids and handles."""
