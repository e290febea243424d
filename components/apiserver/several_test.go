package apiserver_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
	"quintet.dev/quintet/internal/certs"
)

// keyFile is a key that servers sign tokens with.
func keyFile(t *testing.T) string {
	t.Helper()
	pair, err := certs.SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(name, pair.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestServersShareAddresses: several servers on one etcd give services addresses and ports at once, one of them ends
// and comes back meanwhile, and nothing is ever given twice. All that services have is written down as theirs.
func TestServersShareAddresses(t *testing.T) {
	endpoint, key := etcdtest.Start(t), keyFile(t)
	onEtcd := func(c *options.Config) {
		c.ServiceAccountSigningKey, c.ServiceAccountKeyFiles = key, []string{key}
		c.Storage, c.EtcdServers = options.StorageEtcd, []string{endpoint}
		c.ServiceClusterIPRange, c.ServiceNodePortRange = "10.96.0.0/27", "30000-30049"
	}
	var work sync.WaitGroup
	wish := func(f *fixture, name string) {
		client := f.client(t)
		work.Go(func() { wishes(t, client, name) })
	}
	first, second, third := start(t, onEtcd), start(t, onEtcd), start(t, onEtcd)
	wish(first, "a")
	wish(first, "b")
	wish(second, "c")
	wish(third, "d")
	third.stop()
	wish(start(t, onEtcd), "e")
	work.Wait()

	client := second.client(t)
	addresses, _ := has(t, client) // it tells of ports that are given twice
	if len(addresses) < 4 {
		t.Fatalf("only %v are left: that shows nothing", addresses)
	}
	known := written(t, client)
	for i, a := range addresses {
		ip, _, _ := strings.Cut(a, " ")
		if i > 0 && strings.HasPrefix(addresses[i-1], ip+" ") {
			t.Errorf("%s and %s have one address", a, addresses[i-1])
		}
		if !slices.Contains(known, a) {
			t.Errorf("%s is not written down in %v", a, known)
		}
	}
}

// wishes makes and deletes services, some with addresses and ports that others wish for too, until its server has gone.
func wishes(t *testing.T, client kubernetes.Interface, name string) {
	random := rand.New(rand.NewPCG(1, uint64(name[0])))
	services := client.CoreV1().Services("default")
	var kept []string
	for i := range 40 {
		s := nodePortService(fmt.Sprint(name, "-", i))
		if i%2 == 0 {
			s.Spec.ClusterIP = fmt.Sprint("10.96.0.", 2+random.IntN(8))
			s.Spec.Ports[0].NodePort = int32(30000 + random.IntN(8))
		}
		made, err := services.Create(t.Context(), s, metav1.CreateOptions{})
		switch {
		case err == nil:
			kept = append(kept, made.Name)
		case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "already allocated"):
		case name == "d":
			return
		default:
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && random.IntN(2) == 0 {
			made.Spec.Type = corev1.ServiceTypeClusterIP
			if _, err := services.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil && name != "d" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(kept) > 3 {
			if err := services.Delete(t.Context(), kept[0], metav1.DeleteOptions{}); err != nil && name != "d" {
				t.Errorf("%s: %v", name, err)
			}
			kept = kept[1:]
		}
	}
}
