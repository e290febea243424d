package containers

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/internal/backendtest"
	"quintet.dev/quintet/cluster/owner"
)

const testimage = "quintet/testimage:dev"

// needDocker skips where there is no engine or no test image.
func needDocker(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	docker, err := connect(ctx)
	if err != nil {
		t.Skipf("needs Docker: %v", err)
	}
	defer docker.Close()
	if _, err := docker.ImageInspect(ctx, testimage); err != nil {
		t.Skipf("needs %s; run `make images`: %v", testimage, err)
	}
}

func newContainers(t *testing.T, name string) *Containers {
	t.Helper()
	self, err := owner.Self()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(),
		Config{Cluster: name, Owner: self, Run: rand.Text(), Notice: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContract(t *testing.T) {
	needDocker(t)
	name := fmt.Sprintf("contract-%d", os.Getpid())
	backendtest.Run(t, backendtest.Subject{
		Backend: newContainers(t, name),
		Server: func(_ backend.Addressing, member string) backend.Member {
			return backend.Member{Name: member, Component: "server", Image: testimage, Program: "testimage",
				Args: []string{"serve"}, Port: 8080}
		},
	})
	left, err := List(t.Context(), name)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMissingImageSaysWhatToDo(t *testing.T) {
	needDocker(t)
	c := newContainers(t, fmt.Sprintf("missing-%d", os.Getpid()))
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	_, err := c.Prepare(t.Context(), []backend.Placement{{Name: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start(t.Context(), backend.Member{Name: "x", Image: "localhost/quintet/nothing:dev"})
	if err == nil || !strings.Contains(err.Error(), "build or pull it first") {
		t.Errorf("start from an image that does not exist: %v", err)
	}
}

// TestPortsDiffer: each container gets a port of its own, on which nothing listens, and which no other cluster gets
// until it is let go of.
func TestPortsDiffer(t *testing.T) {
	bind := netip.MustParseAddr("127.0.0.1")
	chosen := map[int]hostPort{}
	for range 2 {
		free := localPorts{free: freePorts{taken: map[int]bool{}}, bind: bind}
		for range 250 {
			port, err := free.next()
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := chosen[port.number]; twice {
				t.Fatalf("%d is chosen twice", port.number)
			}
			chosen[port.number] = port
		}
	}
	for number, port := range chosen {
		port.release()
		port.release()
		listener, err := net.Listen("tcp", net.JoinHostPort(bind.String(), strconv.Itoa(number)))
		if err != nil {
			t.Fatalf("a port that was let go of: %v", err)
		}
		_ = listener.Close()
	}
}
