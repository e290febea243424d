package containers

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
)

const ryuk = "TESTCONTAINERS_RYUK_DISABLED"

// TestHelperUsesBackend is no test of its own: TestTestcontainersKeepsItsReaper runs it as a process.
func TestHelperUsesBackend(t *testing.T) {
	name := os.Getenv("QUINTET_TEST_CLUSTER")
	if name == "" {
		t.Skip("run by TestTestcontainersKeepsItsReaper")
	}
	c := newContainers(t, name)
	defer c.Close(t.Context())
	if _, err := c.Prepare(t.Context(), []backend.Placement{{Name: "server-0", Port: 8080}}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Start(t.Context(), backend.Member{Name: "server-0", Image: testimage, Program: "testimage",
		Args: []string{"serve"}, Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	if value, set := os.LookupEnv(ryuk); set {
		t.Errorf("%s is %q", ryuk, value)
	}
	if testcontainers.ReadConfig().Config.RyukDisabled {
		t.Error("Testcontainers has no reaper")
	}
}

// TestTestcontainersKeepsItsReaper: code of the same process that uses Testcontainers itself has its containers reaped.
// The configuration is read once in a process, so that it takes a fresh one without what the build sets.
func TestTestcontainersKeepsItsReaper(t *testing.T) {
	needDocker(t)
	helper := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperUsesBackend$", "-test.v")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, ryuk+"=") {
			helper.Env = append(helper.Env, variable)
		}
	}
	helper.Env = append(helper.Env, fmt.Sprintf("QUINTET_TEST_CLUSTER=reaper-%d", os.Getpid()), "HOME="+t.TempDir())
	if out, err := helper.CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "--- PASS: TestHelperUsesBackend") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWherePortsArePublished(t *testing.T) {
	for _, test := range []struct {
		host, name, bind string
		local            bool
	}{
		{"localhost", "127.0.0.1", "127.0.0.1", true},
		{"127.0.0.2", "127.0.0.2", "127.0.0.2", true},
		{"::1", "::1", "::1", true},
		{"192.0.2.7", "192.0.2.7", "0.0.0.0", false},
		{"[2001:db8::7]", "2001:db8::7", "::", false},
		{"builder.example", "builder.example", "0.0.0.0", false},
	} {
		got := hostNamed(test.host)
		if got.name != test.name || got.bind.String() != test.bind || got.isLocal() != test.local {
			t.Errorf("%s: %+v", test.host, got)
		}
	}
}

// TestEngineHere: a machine whose files look like a container's reaches its engine's ports on the loopback.
func TestEngineHere(t *testing.T) {
	needDocker(t)
	if value, set := os.LookupEnv(hostOverride); set {
		t.Setenv(hostOverride, value) // restores it
		os.Unsetenv(hostOverride)
	}
	name := fmt.Sprintf("here-%d", os.Getpid())
	c := newContainers(t, name)
	defer c.Close(t.Context())
	addressing, err := c.Prepare(t.Context(), []backend.Placement{{Name: "server-0", Port: 8080}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(c.docker.DaemonHost(), "unix://") && isOwn(c.subnets().gateway()) &&
		addressing.PublicHost() != "127.0.0.1" {
		t.Errorf("ports of an engine of this machine are looked for at %s", addressing.PublicHost())
	}
}

func TestEngineThatIsNotTheOneAskedFor(t *testing.T) {
	needDocker(t)
	for host, want := range map[string]string{
		"ssh://builder.example":        "TESTCONTAINERS_HOST_OVERRIDE=HOST",
		"unix:///nonexistent/docker.0": "DOCKER_HOST=unix:///nonexistent/docker.0",
	} {
		t.Setenv("DOCKER_HOST", host)
		if docker, err := connect(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want an error that tells %s", host, docker, err, want)
		}
	}
}

func TestRemotePortsDiffer(t *testing.T) {
	p := freePorts{taken: map[int]bool{}}
	for port := firstPort; port < firstPort+4900; port++ {
		p.taken[port] = true
	}
	for range 100 {
		before := len(p.taken)
		port, err := p.next()
		if err != nil || len(p.taken) != before+1 || port.number < firstPort || port.number >= endPort {
			t.Fatalf("%d, %v", port.number, err)
		}
	}
	for range 2 {
		_, _ = p.next()
	}
	if port, err := p.next(); err == nil {
		t.Errorf("%d of a range that is used up", port.number)
	}
}
