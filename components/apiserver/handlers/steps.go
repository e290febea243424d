package handlers

import (
	"go.opentelemetry.io/otel/attribute"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"

	"quintet.dev/quintet/components/apiserver/tracing"
)

// spans are the names of the verbs in traces. Watches have none, as they go on, nor have connections, which backends
// serve.
var spans = map[string]string{
	"get": "Get", "list": "List", "create": "Create", "update": "Update", "patch": "Patch", "delete": "Delete",
	"deletecollection": "Delete",
}

// traits are what a request is known by in traces and in the log.
func (c *call) traits() []attribute.KeyValue {
	client := "unknown"
	if ip := utilnet.GetClientIP(c.r); ip != nil {
		client = ip.String()
	}
	agent := utilnet.GetHTTPClient(c.r)
	if len(agent) > longestAgent {
		agent = agent[:longestAgent] + "...TRUNCATED"
	}
	return []attribute.KeyValue{
		attribute.String("accept", c.r.Header.Get("Accept")), tracing.AuditID(c.w.Header()),
		attribute.String("client", client), attribute.String("api-group", c.info.APIGroup),
		attribute.String("api-version", c.info.APIVersion),
		attribute.String("name", c.info.Name), attribute.String("subresource", c.info.Subresource),
		attribute.String("namespace", c.info.Namespace),
		attribute.String("protocol", c.r.Proto), attribute.String("resource", c.info.Resource),
		attribute.String("scope", endpointmetrics.CleanScope(c.info)), attribute.String("url", c.r.URL.Path),
		attribute.String("user-agent", agent), attribute.String("verb", endpointmetrics.NormalizedVerb(c.r)),
	}
}

// longestAgent is how much is told of what clients call themselves, in bytes.
const longestAgent = 1024

// serialized encodes and sends an answer: what audit adds up, and traces show, as one thing.
func (o *responder) serialized(send func() error) error {
	defer o.steps.Part(o.ctx, "SerializeObject").End()
	return o.times.Serialize(send)
}
