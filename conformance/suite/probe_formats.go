package suite

import (
	"bytes"
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probeFormats asks for a list in the other forms that an API server may have. One that lacks them answers with JSON.
func (c *Cluster) probeFormats(ctx context.Context) error {
	answer, err := c.answerIn(ctx, "application/vnd.kubernetes.protobuf,application/json")
	if err != nil {
		return err
	}
	c.Features[ProtobufWire] = bytes.HasPrefix(answer, []byte("k8s\x00"))
	if answer, err = c.answerIn(ctx, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"); err != nil {
		return err
	}
	var kind metav1.TypeMeta
	c.Features[TableOutput] = json.Unmarshal(answer, &kind) == nil && kind.Kind == "Table"
	return nil
}

func (c *Cluster) answerIn(ctx context.Context, accept string) ([]byte, error) {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/api/v1/namespaces").Param("limit", "1").
		SetHeader("Accept", accept).Do(ctx).Raw()
}
