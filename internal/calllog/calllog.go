// Package calllog logs the calls that a gRPC server answers, as a JSON object per line: what drivers for tests are read
// by.
package calllog

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Call is a line of the log: a call that was answered, or a message that was sent to a stream.
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

// Log appends calls to a file. It is safe for concurrent use.
type Log struct {
	clock  clock.PassiveClock
	redact func(proto.Message) proto.Message

	mu   sync.Mutex
	file *os.File
}

// Open opens the log at path, which is made if it is not there. redact, if not nil, returns a message without what must
// not be logged, and does not change its argument. The caller closes the log.
func Open(path string, clock clock.PassiveClock, redact func(proto.Message) proto.Message) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--call-log: %w", err)
	}
	return &Log{clock: clock, redact: redact, file: file}, nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Unary is a grpc.UnaryServerInterceptor: it logs a call when it has been answered.
func (l *Log) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	l.log(ctx, info.FullMethod, request, response, err)
	return response, err
}

// Stream is a grpc.StreamServerInterceptor: it logs each message that is sent, and how the stream ended unless that was
// by the client.
func (l *Log) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	ctx := stream.Context()
	err := handle(server, &loggedStream{ServerStream: stream, log: l, method: info.FullMethod})
	if err != nil && ctx.Err() == nil {
		l.log(ctx, info.FullMethod, nil, nil, err)
	}
	return err
}

// loggedStream logs what is sent.
type loggedStream struct {
	grpc.ServerStream
	log    *Log
	method string
}

// SendMsg implements grpc.ServerStream.
func (s *loggedStream) SendMsg(message any) error {
	err := s.ServerStream.SendMsg(message)
	if err == nil {
		s.log.log(s.Context(), s.method, nil, message, nil)
	}
	return err
}

// log writes one line.
func (l *Log) log(ctx context.Context, method string, request, response any, err error) {
	call := Call{Time: l.clock.Now().UTC(), Method: path.Base(method), Code: codes.OK.String()}
	if err != nil {
		call.Code, call.Error, response = status.Code(err).String(), status.Convert(err).Message(), nil
	}
	call.Request, call.Response = l.message(request), l.message(response)
	if failed := l.append(call); failed != nil {
		klog.FromContext(ctx).Error(failed, "Failed to log a call", "method", call.Method)
	}
}

// message returns a message as JSON; nil for what is none.
func (l *Log) message(value any) json.RawMessage {
	m, ok := value.(proto.Message)
	if !ok {
		return nil
	}
	if l.redact != nil {
		m = l.redact(m)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}

func (l *Log) append(call Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.file.Write(append(line, '\n'))
	return err
}
