package verbs

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func run(t *testing.T, in string, args ...string) (code int, out string, err error) {
	t.Helper()
	var stdout bytes.Buffer
	code, err = Run(args, Streams{In: strings.NewReader(in), Out: &stdout, Err: &stdout})
	return code, stdout.String(), err
}

func TestVerbs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	t.Setenv("COLOUR", "red")
	for _, test := range []struct {
		args string
		in   string
		code int
		out  string
	}{
		{args: "print 2", out: "line 1\nline 2\n"},
		{args: "print 2 --text=x then exit 3", code: 3, out: "x 1\nx 2\n"},
		{args: "exit 2 then echo never", code: 2},
		{args: "echo a b", out: "a b\n"},
		{args: "cat", in: "in", out: "in"},
		{args: "write " + file + " hello then cat " + file, out: "hello"},
		{args: "append " + file + " !", out: ""},
		{args: "cat " + file, out: "hello!\n"},
		{args: "head 4 " + file, out: "hell"},
		{args: "head four " + file, code: 2},
		{args: "sizes " + file, out: "7\n"},
		{args: "threads 12", out: "had 12 threads\n"},
		{args: "unmount " + dir, code: 1},
		{args: "resources " + file, code: 1},
		{args: "ls " + dir, out: "f\n"},
		{args: "env COLOUR", out: "red\n"},
		{args: "env NOT_SET_ANYWHERE", code: 1},
		{args: "message --file=" + file + " bye then cat " + file, out: "bye"},
		{args: "wait " + file, out: ""},
		{args: "sleep 1ms", out: ""},
		{args: "remove " + file, out: ""},
		{args: "cat " + file, code: 1},
		{args: "dance", code: 2},
		{args: "print 1 --sideways", code: 2},
		{args: "exit soon", code: 1},
	} {
		code, out, err := run(t, test.in, strings.Fields(test.args)...)
		if code != test.code || out != test.out {
			t.Errorf("%s: code %d, output %q, error %v; want %d, %q", test.args, code, out, err, test.code, test.out)
		}
	}
}

func TestFailCountsItsRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "count")
	for i, want := range []int{1, 1, 0, 0} {
		if code, _, err := run(t, "", "fail", "2", file); code != want || err != nil {
			t.Errorf("run %d: code %d, %v; want %d", i+1, code, err, want)
		}
	}
}

func TestStatTellsModeAndSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("abc"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o2640); err != nil {
		t.Fatal(err)
	}
	_, out, err := run(t, "", "stat", file)
	if fields := strings.Fields(out); err != nil || len(fields) != 6 || fields[1] != "file" || fields[2] != "0640" ||
		fields[5] != "3" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestServerTurnsItsHealth(t *testing.T) {
	srv := &server{text: "me", exit: make(chan int, 1)}
	plain, health := listen(t), listen(t)
	go func() { _ = http.Serve(plain, srv.http()) }()
	go func() { _ = srv.grpc(health) }()
	base := "http://" + plain.Addr().String()

	conn, err := grpc.NewClient(health.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	check := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		response, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(),
			&grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return response.Status
	}
	if _, out, err := run(t, "", "get", base+"/"); err != nil || out != "me\n" {
		t.Errorf("get /: %q, %v", out, err)
	}
	if code, _, _ := run(t, "", "get", base+"/healthz"); code != 0 ||
		check() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Error("not healthy at first")
	}
	if code, _, err := run(t, "", "get", base+"/healthz/set?ok=false"); code != 0 {
		t.Fatal(err)
	}
	if code, _, _ := run(t, "", "get", base+"/healthz"); code != 1 ||
		check() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error("still healthy")
	}
	if code, out, err := run(t, "", "connect", plain.Addr().String()); code != 0 {
		t.Errorf("connect: %q, %v", out, err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}
