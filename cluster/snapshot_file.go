package cluster

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/durable"
)

// The parts of a saved snapshot, in a tar archive. snapshotRecord tells the options, as API servers keep them.
const (
	snapshotRecord = recordFile
	snapshotEtcd   = "etcd.db"
)

// keep are the files with the identities of a snapshot.
func (s *Snapshot) keep() map[string]*[]byte {
	return map[string]*[]byte{
		"ca.crt": &s.ids.cluster.Cert, "ca.key": &s.ids.cluster.Key,
		"sa.pub": &s.ids.serviceAccounts.Cert, "sa.key": &s.ids.serviceAccounts.Key,
	}
}

// Save writes the snapshot to a file, which only its owner may read, as it has the keys of the cluster and its secrets.
// A snapshot of a store in memory can't be saved.
func (s *Snapshot) Save(path string) error {
	if s.etcd == nil {
		return errors.New("save snapshot: its objects lie in the memory of this process; only etcd's can be saved")
	}
	var content bytes.Buffer
	if err := s.write(&content); err != nil {
		return err
	}
	return durable.ReplaceFile(path, content.Bytes(), 0o600)
}

func (s *Snapshot) write(w io.Writer) error {
	record, err := s.config.record()
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	add := func(name string, content []byte) {
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)),
				ModTime: time.Unix(0, 0)})
		}
		if err == nil {
			_, err = archive.Write(content)
		}
	}
	add(snapshotRecord, record)
	for name, content := range s.keep() {
		add(name, *content)
	}
	add(snapshotEtcd, s.etcd)
	return errors.Join(err, archive.Close())
}

// LoadSnapshot reads a snapshot that was saved.
func LoadSnapshot(path string) (*Snapshot, error) {
	s, err := loadSnapshot(path)
	if err != nil {
		return nil, fmt.Errorf("load snapshot %s: %w", path, err)
	}
	return s, nil
}

func loadSnapshot(path string) (*Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	contents := map[string][]byte{}
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, notSnapshot(err)
		}
		if contents[header.Name], err = io.ReadAll(archive); err != nil {
			return nil, notSnapshot(err)
		}
	}
	s := &Snapshot{ids: &identities{cluster: &certs.Authority{}}}
	for name, content := range s.keep() {
		*content = contents[name]
	}
	if s.etcd = contents[snapshotEtcd]; len(s.etcd) == 0 {
		return nil, notSnapshot(errors.New("it has no objects of etcd"))
	}
	if s.ids.cluster, err = certs.LoadAuthority(s.ids.cluster.Pair); err != nil {
		return nil, err
	}
	s.config, err = readRecord("snapshot", contents[snapshotRecord])
	return s, err
}

func notSnapshot(err error) error {
	return fmt.Errorf("it is no snapshot of quintet snapshot (Snapshot.Save), or only a part of one: %w", err)
}
