package csidriver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Call is a line of the log of calls.
type Call struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"` // such as "NodeStageVolume"
	// Request and Response are the messages in the JSON of protobuf, with the names of the .proto file and without the
	// values of secrets.
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	// Code is the name of the gRPC code; Error its message, if it isn't "OK".
	Code  string `json:"code"`
	Error string `json:"error,omitempty"`
}

// callLog appends calls to a file. It is safe for concurrent use.
type callLog struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	file *os.File
}

func openCallLog(path string, clock clock.PassiveClock) (*callLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--call-log: %w", err)
	}
	return &callLog{clock: clock, file: file}, nil
}

// intercept implements grpc.UnaryServerInterceptor: it logs a call when it has been answered.
func (l *callLog) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	call := Call{Time: l.clock.Now().UTC(), Method: path.Base(info.FullMethod), Code: status.Code(err).String()}
	if err != nil {
		call.Error = status.Convert(err).Message()
	}
	if m, ok := request.(proto.Message); ok {
		call.Request = messageJSON(m)
	}
	if m, ok := response.(proto.Message); ok && err == nil {
		call.Response = messageJSON(m)
	}
	if failed := l.append(call); failed != nil {
		klog.FromContext(ctx).Error(failed, "Failed to log a call", "method", call.Method)
	}
	return response, err
}

func (l *callLog) append(call Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// messageJSON is a message without the values of its secrets.
func messageJSON(m proto.Message) json.RawMessage {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(withoutSecrets(m))
	if err != nil {
		return nil
	}
	return text
}

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
