package csidriver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// stripped stands for the value of a secret.
const stripped = "***stripped***"

// tokensKey is where kubelets put the tokens of service accounts in a volume's context
// (https://kubernetes-csi.github.io/docs/token-requests.html).
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// withoutSecrets returns m, or a copy if it has values in fields that CSI marks as secret. They are maps at the top of
// requests.
func withoutSecrets(m proto.Message) proto.Message {
	out := m
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		options, ok := field.Options().(*descriptorpb.FieldOptions)
		secret, marked := proto.GetExtension(options, csi.E_CsiSecret).(bool)
		only := "" // the key whose value is secret; "" for all
		switch {
		case !field.IsMap():
			return true
		case field.Name() == "volume_context":
			only = tokensKey
		case !ok || !marked || !secret:
			return true
		}
		if out == m {
			out = proto.Clone(m)
		}
		values := out.ProtoReflect().Mutable(field).Map()
		values.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			if only == "" || key.String() == only {
				values.Set(key, protoreflect.ValueOfString(stripped))
			}
			return true
		})
		return true
	})
	return out
}
