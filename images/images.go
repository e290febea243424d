// Package images builds the container images that clusters run from, out of the source of this module: a test that
// imports package cluster needs nothing but Docker and Go.
//
// The stages of the Dockerfile beside this file say what is in which image. Programs are built by the Go of this
// machine, static and for the engine's architecture, so that no compiler is pulled. The tag of an image is a hash of
// all that is in it: an image that exists is the right one, and one of other sources is never taken for it. The tag
// "dev" is on what was built last, for people.
package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Environment variables.
const (
	// EnvSource names a checkout to build from. Without, the source is that of the running program.
	EnvSource = "QUINTET_SOURCE"
	// EnvPrefix replaces "quintet" in front of the names of images.
	EnvPrefix = "QUINTET_IMAGE_PREFIX"
)

// Latest is the tag of the image that was built last, and of images in nodes.
const Latest = "dev"

// own is the prefix of images within nodes, which are the same whatever EnvPrefix says.
const own = "quintet"

// atOnce is how many images are built at once.
const atOnce = 4

// Builder builds images.
type Builder struct {
	// Engine is where images are.
	Engine Engine
	// Report is called with what is being done, from one goroutine at a time. Not nil.
	Report func(text string)
	// Again builds and records even if the images of this source are known; nothing that exists is built twice.
	Again bool
}

// Prefix is what the names of images begin with.
func Prefix() string { return cmp.Or(os.Getenv(EnvPrefix), own) }

// Ensure builds those of the named images that the engine lacks and returns the reference of each by its name; no name
// means all. Concurrent processes of a user wait for each other.
func (b Builder) Ensure(ctx context.Context, names ...string) (map[string]string, error) {
	server, err := b.Engine.target(ctx)
	if err != nil {
		return nil, err
	}
	source, err := FindSource(ctx)
	if err != nil {
		return nil, err
	}
	fingerprint, err := source.fingerprint()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir(source, server)
	if err != nil {
		return nil, err
	}
	known := record{
		file: filepath.Join(cache, "images-"+url.PathEscape(Prefix())+".json"), Source: fingerprint, Prefix: Prefix(),
	}
	if refs := known.find(names); refs != nil && !b.Again && b.haveAll(ctx, refs) {
		return refs, nil
	}
	var refs map[string]string
	err = exclusively(ctx, filepath.Join(cache, "lock"), func() error {
		if found := known.find(names); found != nil && !b.Again && b.haveAll(ctx, found) {
			refs = found // another process built them meanwhile
			return nil
		}
		made := &making{Builder: b, source: source, server: server, cache: cache, refs: map[string]string{}}
		if err := made.run(ctx, names); err != nil {
			return err
		}
		refs = made.refs
		return known.save(refs)
	})
	if err != nil {
		return nil, fmt.Errorf("images of %s: %w", source, err)
	}
	return refs, nil
}

func (b Builder) haveAll(ctx context.Context, refs map[string]string) bool {
	for _, ref := range refs {
		if has, err := b.Engine.has(ctx, ref); err != nil || !has {
			return false
		}
	}
	return true
}

// making is the state of one build of several images.
type making struct {
	Builder
	source Source
	server target
	cache  string
	base   string            // reference of the node's base; "" if no stage needs it
	refs   map[string]string // by name
}

func (m *making) run(ctx context.Context, names []string) error {
	stages, err := m.source.stages()
	if err != nil {
		return err
	}
	wanted, err := closure(stages, names)
	if err != nil {
		return err
	}
	if err := m.programs(ctx, wanted); err != nil {
		return err
	}
	if slices.ContainsFunc(wanted, func(s stage) bool { return s.from == baseName }) {
		if m.base, err = m.ensureBase(ctx); err != nil {
			return err
		}
	}
	for _, level := range levels(wanted) {
		if err := m.all(ctx, level); err != nil {
			return err
		}
	}
	return m.prune(ctx)
}

// programs builds what the stages copy.
func (m *making) programs(ctx context.Context, stages []stage) error {
	var programs []string
	for _, s := range stages {
		programs = append(programs, s.programs()...)
	}
	slices.Sort(programs)
	programs = slices.Compact(programs)
	began := time.Now()
	m.Report(fmt.Sprintf("building %d programs of %s (the first time takes minutes)", len(programs), m.source))
	if err := m.source.build(ctx, programs, m.server, m.bin()); err != nil {
		return err
	}
	m.Report(fmt.Sprintf("built %d programs … %.0f s", len(programs), time.Since(began).Seconds()))
	return nil
}

func (m *making) bin() string { return filepath.Join(m.cache, "bin") }

// all makes the images of stages at once.
func (m *making) all(ctx context.Context, stages []stage) error {
	refs := make([]string, len(stages))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	reports := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for text := range reports {
			m.Report(text)
		}
	}()
	for i, s := range stages {
		group.Go(func() (err error) {
			refs[i], err = m.one(ctx, s, func(text string) { reports <- text })
			return err
		})
	}
	err := group.Wait()
	close(reports)
	<-done
	if err != nil {
		return err
	}
	for i, s := range stages {
		m.refs[s.name] = refs[i]
	}
	return nil
}

// one makes the image of a stage unless it exists, and returns its reference.
func (m *making) one(ctx context.Context, s stage, report func(string)) (string, error) {
	tag, err := m.tag(s)
	if err != nil {
		return "", err
	}
	ref := Prefix() + "/" + s.name + ":" + tag
	has, err := m.Engine.has(ctx, ref)
	if err != nil {
		return "", err
	}
	if !has {
		report("building image " + ref)
		began := time.Now()
		if err := m.build(ctx, s, ref); err != nil {
			return "", fmt.Errorf("image %s: %w", ref, err)
		}
		report(fmt.Sprintf("built image %s … %.0f s", ref, time.Since(began).Seconds()))
	}
	return ref, m.Engine.tag(ctx, ref, Prefix()+"/"+s.name+":"+Latest)
}

// tag is the hash of what makes an image.
func (m *making) tag(s stage) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, m.server, s.text)
	if s.from == baseName {
		fmt.Fprintln(hash, m.base)
	}
	for _, program := range s.programs() {
		sum, err := fileSum(filepath.Join(m.bin(), program))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, program, sum)
	}
	for _, name := range s.archives() {
		fmt.Fprintln(hash, name, m.refs[name])
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// build has the engine build a stage.
func (m *making) build(ctx context.Context, s stage, ref string) error {
	content := buildContext{dockerfile: s.text}
	if s.from == baseName {
		content.dockerfile = s.on(m.base)
	}
	for _, program := range s.programs() {
		content.files = append(content.files, contextFile{name: program, path: filepath.Join(m.bin(), program), mode: 0o755})
	}
	for _, name := range s.archives() {
		file := filepath.Join(m.cache, name+archiveSuffix)
		inNodes := own + "/" + name + ":" + Latest
		if err := m.Engine.tag(ctx, m.refs[name], inNodes); err != nil {
			return err
		}
		if err := m.Engine.save(ctx, inNodes, file); err != nil {
			return err
		}
		content.files = append(content.files, contextFile{name: name + archiveSuffix, path: file, mode: 0o644})
	}
	return m.Engine.build(ctx, content, ref, m.labels(s.name), nil)
}

// prune removes images of this source that others of the same names have taken the place of, unless they are in use.
func (m *making) prune(ctx context.Context) error {
	all, err := m.Engine.list(ctx)
	if err != nil {
		return err
	}
	for _, image := range all {
		current, built := m.refs[image.Name]
		if !built || image.Source != m.source.id() || image.Ref == current || image.Tag == Latest ||
			image.Ref != Prefix()+"/"+image.Name+":"+image.Tag {
			continue
		}
		m.Engine.remove(ctx, image.Ref)
	}
	return nil
}

// record is a file that remembers the images of a source.
type record struct {
	file   string
	Source string            `json:"source"` // fingerprint
	Prefix string            `json:"prefix"`
	Refs   map[string]string `json:"refs"`
}

// find returns the references of the named images, or nil if they are not all known for the source.
func (r record) find(names []string) map[string]string {
	var kept record
	content, err := os.ReadFile(r.file)
	if err != nil || json.Unmarshal(content, &kept) != nil || kept.Source != r.Source || kept.Prefix != r.Prefix ||
		len(names) == 0 {
		return nil
	}
	refs := map[string]string{}
	for _, name := range names {
		if kept.Refs[name] == "" {
			return nil
		}
		refs[name] = kept.Refs[name]
	}
	return refs
}

// save adds references of the same source. The caller holds the lock.
func (r record) save(refs map[string]string) error {
	var kept record
	if content, err := os.ReadFile(r.file); err == nil && json.Unmarshal(content, &kept) == nil &&
		kept.Source == r.Source && kept.Prefix == r.Prefix {
		r.Refs = kept.Refs
	}
	if r.Refs == nil {
		r.Refs = map[string]string{}
	}
	for name, ref := range refs {
		r.Refs[name] = ref
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	written := r.file + ".new"
	return errors.Join(os.WriteFile(written, content, 0o600), os.Rename(written, r.file))
}
