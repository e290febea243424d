package kubelet

import (
	"testing"

	"golang.org/x/sys/unix"

	"quintet.dev/quintet/components/kubelet/pods"
)

// TestServingCertificateAfterFullDisk: a disk with no space for the serving certificate keeps the kubelet from its
// start, and no later one when there is space.
func TestServingCertificateAfterFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4096"); err != nil {
		t.Skip("a small file system takes root: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	k, p := &Kubelet{name: "n1", config: Config{CertDir: dir}}, &parts{pods: &pods.Manager{}}
	if _, err := k.servingCertificate(p); err == nil {
		t.Fatal("a certificate and a key on a disk that has space for one of them")
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	made, err := k.servingCertificate(p)
	if err != nil {
		t.Fatal(err)
	}
	read, err := k.servingCertificate(p)
	if err != nil || !read.Leaf.Equal(made.Leaf) {
		t.Errorf("another one the next time, %v", err)
	}
}
