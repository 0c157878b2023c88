"""HTTP/2 with limits: what the connections of gRPC clients may cost a proxy, over grpclib and h2."""
