// Package record adds to the audit event of a request the objects that come with it and go back, as far as the event is
// to have them. Where nothing is audited it does nothing, at the price of looking into the request's context.
package record

import (
	"context"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// Encode makes JSON of an object, as the client sent it or sees it.
type Encode func(obj runtime.Object) ([]byte, error)

// Request notes the object that a request carries to a resource. obj is copied if it has to be changed.
func Request(ctx context.Context, obj runtime.Object, resource schema.GroupVersionResource, subresource string,
	encode Encode) {
	level := Level(ctx)
	if level.Less(auditapi.LevelMetadata) {
		return
	}
	if level.Less(auditapi.LevelRequest) {
		encode = empty // of which the event takes the names only
	}
	audit.LogRequestObject(ctx, obj, resource.GroupVersion(), resource, subresource, encoder{encode})
}

// Patch notes what a request to change an object carries.
func Patch(ctx context.Context, patch []byte) {
	if !Level(ctx).Less(auditapi.LevelRequest) {
		audit.LogRequestPatch(ctx, patch)
	}
}

// Response notes what is answered. Of a Status, which may come from any part of the server, every event has the gist.
func Response(ctx context.Context, obj runtime.Object, encode Encode) {
	if !Level(ctx).Less(auditapi.LevelMetadata) {
		audit.LogResponseObject(ctx, obj, schema.GroupVersion{}, encoder{encode})
	}
}

// WantsResponse tells whether the event is to have what is answered: it need not be put together for it otherwise.
func WantsResponse(ctx context.Context) bool {
	return !Level(ctx).Less(auditapi.LevelRequestResponse)
}

// Level is how much the event of a request is to have; None if there is no event.
func Level(ctx context.Context) auditapi.Level {
	event := audit.AuditContextFrom(ctx)
	if event == nil || !event.Enabled() {
		return auditapi.LevelNone
	}
	if level := event.GetEventLevel(); level != "" {
		return level
	}
	return auditapi.LevelNone // the policy was not asked
}

func empty(runtime.Object) ([]byte, error) { return nil, nil }

// encoder lets Encode pass as the serializer that package audit asks for.
type encoder struct{ encode Encode }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (e encoder) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON}}
}

// EncoderForVersion implements runtime.NegotiatedSerializer; the version is Encode's affair.
func (e encoder) EncoderForVersion(runtime.Encoder, runtime.GroupVersioner) runtime.Encoder { return e }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (e encoder) DecoderToVersion(runtime.Decoder, runtime.GroupVersioner) runtime.Decoder {
	return runtime.NoopDecoder{Encoder: e}
}

// Encode implements runtime.Encoder.
func (e encoder) Encode(obj runtime.Object, w io.Writer) error {
	if obj == nil {
		return errors.New("there is no object to be audited")
	}
	body, err := e.encode(obj)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// Identifier implements runtime.Encoder.
func (e encoder) Identifier() runtime.Identifier { return "audit" }
