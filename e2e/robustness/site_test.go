package robustness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/internal/certs"
)

// program is a process that is killed and started again; its command line stays the same.
type program struct {
	name, path string
	args       []string
	log        *os.File

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{}
}

func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.process, p.ended = cmd.Process, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(p.ended)
	return nil
}

// kill ends the process without a chance to clean up.
func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		_ = p.process.Signal(syscall.SIGCONT)
		_ = p.process.Kill()
		<-p.ended
	}
}

func (p *program) signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.process.Signal(s)
}

// site is three members of etcd and three API servers, each behind links that can be cut.
type site struct {
	members    []*program
	memberURLs []string // past the links
	servers    []*program
	toStore    []*link // from the API servers to each member
	toServer   []*link // from clients to each API server
	etcd       *clientv3.Client
	ports      ports
}

const (
	members = 3
	servers = 3
)

// newSite builds the programs and starts them; everything ends with the test. Logs stay in dir.
func newSite(t *testing.T, dir string) *site {
	t.Helper()
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/etcd", "./cmd/kube-apiserver")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := &site{}
	t.Cleanup(s.end)
	s.addMembers(t, dir)
	s.addServers(t, dir)
	for _, p := range append(s.members, s.servers...) {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.etcd, err = clientv3.New(clientv3.Config{Endpoints: s.memberURLs, Logger: zap.NewNop(),
		DialTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.servers {
		s.await(t, i)
	}
	for _, url := range s.memberURLs { // the API servers need but two of three
		s.awaitMember(t, url)
	}
	return s
}

func (s *site) addMembers(t *testing.T, dir string) {
	peers := make([]string, members)
	var cluster []string
	for i := range members {
		peers[i] = "http://" + s.ports.address(t)
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i := range members {
		address := s.ports.address(t)
		s.memberURLs = append(s.memberURLs, "http://"+address)
		s.toStore = append(s.toStore, openLink(t, address))
		s.members = append(s.members, newProgram(t, dir, fmt.Sprintf("m%d", i), "etcd",
			"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, fmt.Sprintf("m%d", i)),
			"--listen-client-urls", "http://"+address, "--advertise-client-urls", "http://"+address,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(cluster, ","), "--heartbeat-interval", "50", "--election-timeout", "500",
			// Processes are killed, the machine isn't: what was written is there without a sync.
			"--unsafe-no-fsync", "--log-level", "warn"))
	}
}

func (s *site) addServers(t *testing.T, dir string) {
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("admin,admin,1,\"system:masters\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := certs.SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	private, public := filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	if err := errors.Join(os.WriteFile(private, key.Key, 0o600), os.WriteFile(public, key.Cert, 0o600)); err != nil {
		t.Fatal(err)
	}
	var stores []string
	for _, l := range s.toStore {
		stores = append(stores, "http://"+l.address())
	}
	for i := range servers {
		address := s.ports.address(t)
		s.toServer = append(s.toServer, openLink(t, address))
		_, port, _ := net.SplitHostPort(address)
		s.servers = append(s.servers, newProgram(t, dir, fmt.Sprintf("apiserver%d", i), "kube-apiserver",
			"--etcd-servers", strings.Join(stores, ","), "--bind-address", "127.0.0.1", "--secure-port", port,
			"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-account-issuer",
			"https://robustness",
			"--service-account-signing-key-file", private, "--service-account-key-file", public,
			"--disable-admission-plugins", "ServiceAccount"))
	}
}

// config is of clients of one API server, through its link.
func (s *site) config(server int) *rest.Config {
	return &rest.Config{
		Host: "https://" + s.toServer[server].address(), BearerToken: "admin", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		// Without this, clients would share a connection, and see its end together.
		Dial: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
	}
}

func (s *site) client(t *testing.T, server int) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.config(server))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// await waits until an API server is ready.
func (s *site) await(t *testing.T, server int) {
	t.Helper()
	client := s.client(t, server).Discovery().RESTClient()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := client.Get().AbsPath("/readyz").DoRaw(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("API server %d doesn't get ready: %v", server, err)
		}
	}
}

// awaitMember waits until a member answers; its data are in its folder then.
func (s *site) awaitMember(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := s.etcd.Status(ctx, url)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("etcd at %s doesn't answer: %v", url, err)
		}
	}
}

// leader is the index of the leading member, -1 if none reports to be.
func (s *site) leader(ctx context.Context) int {
	for i, url := range s.memberURLs {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		status, err := s.etcd.Status(ctx, url)
		cancel()
		if err == nil && status.Leader == status.Header.MemberId {
			return i
		}
	}
	return -1
}

func (s *site) end() {
	if s.etcd != nil {
		_ = s.etcd.Close()
	}
	for _, p := range append(s.servers, s.members...) {
		p.kill()
		_ = p.log.Close()
	}
	for _, l := range append(s.toServer, s.toStore...) {
		l.close()
	}
}

func newProgram(t *testing.T, dir, name, executable string, args ...string) *program {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return &program{name: name, path: filepath.Join(dir, executable), args: args, log: log}
}

func openLink(t *testing.T, target string) *link {
	t.Helper()
	l, err := newLink(target)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
