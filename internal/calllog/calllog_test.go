package calllog

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	testclock "k8s.io/utils/clock/testing"
)

// stream is a server's stream that takes whatever is sent.
type stream struct{ grpc.ServerStream }

func (stream) Context() context.Context { return context.Background() }
func (stream) SendMsg(any) error        { return nil }

// Calls that succeed, calls that fail and messages of streams are lines, in order and without what is to be left out.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	log, err := Open(path, testclock.NewFakeClock(now), func(m proto.Message) proto.Message {
		if info, ok := m.(*registerapi.PluginInfo); ok {
			return &registerapi.PluginInfo{Name: info.Name}
		}
		return m
	})
	if err != nil {
		t.Fatal(err)
	}
	info := &grpc.UnaryServerInfo{FullMethod: "/pluginregistration.Registration/GetInfo"}
	answer := &registerapi.PluginInfo{Name: "n", Endpoint: "secret"}
	got, err := log.Unary(t.Context(), &registerapi.InfoRequest{}, info,
		func(context.Context, any) (any, error) { return answer, nil })
	if got != answer || err != nil {
		t.Errorf("the answer became %v, %v", got, err)
	}
	refusal := status.Error(codes.NotFound, "no such thing")
	if _, err := log.Unary(t.Context(), &registerapi.InfoRequest{}, info,
		func(context.Context, any) (any, error) { return nil, refusal }); err != refusal {
		t.Errorf("the error became %v", err)
	}
	err = log.Stream(nil, stream{}, &grpc.StreamServerInfo{FullMethod: "/s/Watch"}, func(_ any,
		s grpc.ServerStream) error {
		return s.SendMsg(&registerapi.PluginInfo{Name: "sent"})
	})
	if err != nil {
		t.Error(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(content)) {
		var c Call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if !c.Time.Equal(now) {
			t.Errorf("time %v", c.Time)
		}
		calls = append(calls, strings.Join([]string{c.Method, c.Code, c.Error, string(c.Request), string(c.Response)}, "|"))
	}
	want := []string{`GetInfo|OK||{}|{"name":"n"}`, `GetInfo|NotFound|no such thing|{}|`, `Watch|OK|||{"name":"sent"}`}
	if strings.Join(calls, "\n") != strings.Join(want, "\n") {
		t.Errorf("calls\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
}
