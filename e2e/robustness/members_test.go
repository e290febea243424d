package robustness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/internal/certs"
)

// quorum is an etcd cluster with TLS everywhere, whose members come and go, and two API servers on it.
type quorum struct {
	t       *testing.T
	dir     string
	members map[string]*program
	clients map[string]string // URLs
	peers   map[string]string
	servers []*program
	hosts   []string // of the API servers
	etcd    *clientv3.Client
	ports   ports
}

func newQuorum(t *testing.T) *quorum {
	t.Helper()
	q := &quorum{t: t, dir: t.TempDir(), members: map[string]*program{}, clients: map[string]string{},
		peers: map[string]string{}}
	build := exec.Command("go", "build", "-o", q.dir+"/", "./cmd/etcd", "./cmd/kube-apiserver")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	q.writeCertificates()
	t.Cleanup(q.end)
	first := []string{"m0", "m1", "m2"}
	for _, name := range first {
		q.place(name)
	}
	for _, name := range first {
		q.join(name, "new", first)
	}
	tls, err := transport.TLSInfo{CertFile: q.file("client.crt"), KeyFile: q.file("client.key"),
		TrustedCAFile: q.file("ca.crt")}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, name := range first {
		urls = append(urls, q.clients[name])
	}
	if q.etcd, err = clientv3.New(clientv3.Config{Endpoints: urls, TLS: tls, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	q.startServers(urls)
	return q
}

func (q *quorum) file(name string) string { return filepath.Join(q.dir, name) }

func (q *quorum) writeCertificates() {
	authority, err := certs.NewAuthority("etcd-ca")
	if err != nil {
		q.t.Fatal(err)
	}
	peer, err := authority.Peer("etcd", "127.0.0.1")
	if err != nil {
		q.t.Fatal(err)
	}
	client, err := authority.Client("kube-apiserver")
	if err != nil {
		q.t.Fatal(err)
	}
	signing, err := certs.SigningKey()
	if err != nil {
		q.t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"sa.key": signing.Key, "sa.pub": signing.Cert,
		"ca.crt": authority.Cert, "peer.crt": peer.Cert, "peer.key": peer.Key, "client.crt": client.Cert,
		"client.key": client.Key,
		"tokens.csv": []byte("admin,admin,1,\"system:masters\"\n"),
	} {
		if err := os.WriteFile(q.file(name), content, 0o600); err != nil {
			q.t.Fatal(err)
		}
	}
}

// place gives a member its addresses.
func (q *quorum) place(name string) {
	q.clients[name], q.peers[name] = "https://"+q.ports.address(q.t), "https://"+q.ports.address(q.t)
}

// join starts a member of a cluster of those named, with nothing of its own.
func (q *quorum) join(name, state string, all []string) {
	var cluster []string
	for _, other := range all {
		cluster = append(cluster, other+"="+q.peers[other])
	}
	if err := os.RemoveAll(q.file(name)); err != nil {
		q.t.Fatal(err)
	}
	q.members[name] = newProgram(q.t, q.dir, name, "etcd", "--name", name, "--data-dir", q.file(name),
		"--listen-client-urls", q.clients[name], "--advertise-client-urls", q.clients[name],
		"--listen-peer-urls", q.peers[name], "--initial-advertise-peer-urls", q.peers[name],
		"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", state,
		"--cert-file", q.file("peer.crt"), "--key-file", q.file("peer.key"), "--trusted-ca-file", q.file("ca.crt"),
		"--client-cert-auth",
		"--peer-cert-file", q.file("peer.crt"), "--peer-key-file", q.file("peer.key"), "--peer-trusted-ca-file",
		q.file("ca.crt"), "--peer-client-cert-auth",
		"--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync", "--log-level", "warn")
	if err := q.members[name].start(); err != nil {
		q.t.Fatal(err)
	}
}

// leave stops a member as an operator does.
func (q *quorum) leave(name string) {
	q.members[name].signal(syscall.SIGTERM)
	<-q.members[name].ended
}

// id is the cluster's name for a member.
func (q *quorum) id(name string) uint64 {
	list, err := q.etcd.MemberList(q.t.Context())
	if err != nil {
		q.t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.PeerURLs[0] == q.peers[name] {
			return m.ID
		}
	}
	q.t.Fatalf("%s is no member: %v", name, list.Members)
	return 0
}

// change requests a membership change until the cluster accepts it: it rejects changes that could lose quorum.
func (q *quorum) change(what string, change func(context.Context) error) {
	q.eventually(what, func() error {
		ctx, cancel := context.WithTimeout(q.t.Context(), 5*time.Second)
		defer cancel()
		return change(ctx)
	})
}

func (q *quorum) add(name string) {
	q.change("adding "+name, func(ctx context.Context) error {
		_, err := q.etcd.MemberAdd(ctx, []string{q.peers[name]})
		return err
	})
}

func (q *quorum) remove(name string) {
	id := q.id(name)
	q.change("removing "+name, func(ctx context.Context) error {
		_, err := q.etcd.MemberRemove(ctx, id)
		return err
	})
}

// serving waits until a member answers for the whole cluster.
func (q *quorum) serving(name string) {
	tls, err := transport.TLSInfo{CertFile: q.file("client.crt"), KeyFile: q.file("client.key"),
		TrustedCAFile: q.file("ca.crt")}.ClientConfig()
	if err != nil {
		q.t.Fatal(err)
	}
	one, err := clientv3.New(clientv3.Config{Endpoints: []string{q.clients[name]}, TLS: tls, Logger: zap.NewNop()})
	if err != nil {
		q.t.Fatal(err)
	}
	defer one.Close()
	q.change(name+" serves", func(ctx context.Context) error {
		_, err := one.Get(ctx, "/")
		return err
	})
}

func (q *quorum) startServers(urls []string) {
	for i := range 2 {
		address := q.ports.address(q.t)
		_, port, _ := net.SplitHostPort(address)
		name := "apiserver" + strconv.Itoa(i)
		p := newProgram(q.t, q.dir, name, "kube-apiserver", "--etcd-servers", strings.Join(urls, ","),
			"--etcd-cafile", q.file("ca.crt"), "--etcd-certfile", q.file("client.crt"), "--etcd-keyfile",
			q.file("client.key"),
			"--bind-address", "127.0.0.1", "--secure-port", port, "--token-auth-file", q.file("tokens.csv"),
			"--authorization-mode", "RBAC",
			"--service-account-issuer", "https://robustness", "--service-account-signing-key-file", q.file("sa.key"),
			"--service-account-key-file", q.file("sa.pub"))
		if err := p.start(); err != nil {
			q.t.Fatal(err)
		}
		q.servers, q.hosts = append(q.servers, p), append(q.hosts, "https://"+address)
	}
	for i := range q.hosts {
		client := q.client(i).Discovery().RESTClient()
		q.eventually("API servers are ready",
			func() error { return client.Get().AbsPath("/readyz").Do(q.t.Context()).Error() })
	}
}

func (q *quorum) client(server int) *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: q.hosts[server], BearerToken: "admin", QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		q.t.Fatal(err)
	}
	return client
}

func (q *quorum) end() {
	if q.etcd != nil {
		_ = q.etcd.Close()
	}
	for _, p := range q.servers {
		p.kill()
		_ = p.log.Close()
	}
	for _, p := range q.members {
		p.kill()
		_ = p.log.Close()
	}
}

func (q *quorum) eventually(what string, try func() error) {
	q.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			q.t.Fatalf("in vain: %s: %v", what, err)
		}
	}
}

// counter writes numbers, each larger than the one before, to an object of its own, through one API server.
type counter struct {
	name    string
	client  *kubernetes.Clientset
	written atomic.Int64 // the last one that was acknowledged
}

func (c *counter) object(n int64) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Data: map[string]string{"n": strconv.FormatInt(n, 10)}}
}

// run writes until ctx ends. A write that failed may have happened, so its number is passed over.
func (c *counter) run(ctx context.Context) {
	objects := c.client.CoreV1().ConfigMaps("default")
	for n := int64(1); ctx.Err() == nil; n++ {
		trying, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := objects.Update(trying, c.object(n), metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = objects.Create(trying, c.object(n), metav1.CreateOptions{})
		}
		cancel()
		if err == nil {
			c.written.Store(n)
		}
	}
}

// check reads what is there through any server: nothing that was acknowledged is lost.
func (c *counter) check(ctx context.Context, reader *kubernetes.Clientset) error {
	least := c.written.Load()
	found, err := reader.CoreV1().ConfigMaps("default").Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(found.Data["n"], 10, 64); err != nil || n < least {
		return fmt.Errorf("%s is at %q, and %d was acknowledged", c.name, found.Data["n"], least)
	}
	return nil
}

// TestMembersComeAndGo: while members of etcd are stopped, started, replaced and added, one at a time, writes through
// both API servers go on, and what was acknowledged stays.
func TestMembersComeAndGo(t *testing.T) {
	q := newQuorum(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var counters []*counter
	for server := range q.servers {
		for i := range 2 {
			c := &counter{name: fmt.Sprintf("counter-%d-%d", server, i), client: q.client(server)}
			counters = append(counters, c)
			running.Go(func() { c.run(ctx) })
		}
	}
	last := time.Now()
	goesOn := func(when string) {
		t.Helper()
		defer func() {
			t.Logf("%s: after %v", when, time.Since(last).Round(time.Millisecond))
			last = time.Now()
		}()
		for _, c := range counters {
			before := c.written.Load()
			q.eventually(when+": writes of "+c.name+" go on", func() error {
				if now := c.written.Load(); now < before+10 {
					return fmt.Errorf("%d, and %d before", now, before)
				}
				return nil
			})
		}
		for _, c := range counters {
			for server := range q.servers {
				if err := c.check(ctx, q.client(server)); err != nil {
					t.Errorf("%s: through server %d: %v", when, server, err)
				}
			}
		}
	}
	goesOn("all are there")
	for _, name := range []string{"m0", "m1", "m2"} { // each leads at some time, or doesn't
		q.leave(name)
		goesOn("without " + name)
		if err := q.members[name].start(); err != nil {
			t.Fatal(err)
		}
		q.serving(name)
		goesOn(name + " is back")
	}
	q.leave("m1")
	q.remove("m1")
	q.add("m1")
	q.join("m1", "existing", []string{"m0", "m1", "m2"})
	q.serving("m1")
	goesOn("m1 was replaced")
	q.place("m3")
	q.add("m3")
	q.join("m3", "existing", []string{"m0", "m1", "m2", "m3"})
	q.serving("m3")
	goesOn("m3 was added")
	q.leave("m0")
	q.remove("m0")
	goesOn("m0 is gone for good")
	stop()
	running.Wait()
	for _, c := range counters {
		if err := errors.Join(c.check(t.Context(), q.client(0)), c.check(t.Context(), q.client(1))); err != nil {
			t.Error(err)
		}
	}
}
