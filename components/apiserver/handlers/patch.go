package handlers

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/quantities"
	"quintet.dev/quintet/components/apiserver/registry"
)

// maxOperations bounds a JSON patch.
const maxOperations = 10000

// limitCopies bounds by how much the copies of a JSON patch may make an object grow: a few of them could else fill the
// memory (CVE-2019-1002100). The library has one bound for the whole process, and it is the same for all servers.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = maxBody })

// patch changes an object by one of the four kinds of patches
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-apply).
func (c *call) patch() error {
	if err := c.isNamed(); err != nil {
		return err
	}
	kind, cbor := types.PatchType(c.media), false
	if kind == types.ApplyCBORPatchType {
		kind, cbor = types.ApplyYAMLPatchType, true
	}
	if kind == types.ApplyYAMLPatchType {
		c.MayHaveUnknownFields = true
	}
	body, err := c.in.readBody()
	if err != nil {
		return err
	}
	o, err := c.patchOptions(kind)
	if err != nil {
		return err
	}
	c.in.auditPatch(body, cbor)
	p := patcher{call: c, kind: kind, cbor: cbor, body: body, options: o, manager: managerName(c.r, o.FieldManager)}
	switch {
	case c.IsScale():
		return p.patchScale()
	case kind == types.ApplyYAMLPatchType:
		return p.applyObject()
	}
	e, _, err := c.change(registry.Change{Next: p.next, Options: updateOf(o), DryRun: o.DryRun})
	if err != nil {
		return err
	}
	return c.out.stored(http.StatusOK, e)
}

// patchMedia is the form of the patch that the request carries.
func (c *call) patchMedia() (string, error) {
	// a space before it is part of a media type that doesn't exist
	media, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	known := c.api.forms.patches
	if c.Kind.Custom != nil {
		known = c.api.forms.customPatches
	}
	if !slices.Contains(known, media) {
		return "", negotiate.Unsupported(strings.Join(known, ", "))
	}
	return media, nil
}

func (c *call) patchOptions(kind types.PatchType) (*metav1.PatchOptions, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.PatchOptions) error {
		return metav1.Convert_url_Values_To_v1_PatchOptions(q, o, nil)
	})
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PatchOptions"}
	return o, invalidOptions("PatchOptions", validation.ValidatePatchOptions(o, kind))
}

// patcher is one PATCH request.
type patcher struct {
	*call
	kind    types.PatchType
	cbor    bool // the body is
	body    []byte
	clean   bool // nothing is wrong with the body
	options *metav1.PatchOptions
	manager string // of the fields that it sets
}

// next patches the current object, in the version of the request.
func (p *patcher) next(current *cache.Entry) (api.Object, error) {
	p.SubmittedGroupKind = nil
	var into api.Object
	ok := false
	if !quantities.Suspicious(p.body) {
		into, ok = p.plainly(current.Object)
	}
	version := p.Version
	if !ok {
		var err error
		if into, version, err = p.merged(current); err != nil {
			return nil, err
		}
	}
	if version.Default != nil {
		version.Default(into)
	}
	hub := into
	if version.ToHub != nil {
		var err error
		if hub, err = version.ToHub(into); err != nil {
			return nil, err
		}
	}
	p.writer().Track(current.Object, hub, p.manager)
	return hub, nil
}

// merged makes what becomes of the current object, and tells of which version that is.
func (p *patcher) merged(current *cache.Entry) (api.Object, *api.Version, error) {
	into := p.Version.New()
	if p.kind != types.StrategicMergePatchType {
		body, err := current.EncodedOnce(p.Format(codec.JSON, cache.Whole))
		if err != nil {
			return nil, nil, err
		}
		return p.textual(body, into)
	}
	shown, err := p.FromHub(current.Object)
	if err != nil {
		return nil, nil, err
	}
	if err := p.strategic(codec.WithKind(shown, p.GVK), into); err != nil {
		return nil, nil, err
	}
	return into, p.Version, p.Check(into)
}

// textual patches the JSON of an object by a JSON patch or a merge patch, and reads the outcome: of the version that it
// then says it is of.
func (p *patcher) textual(current []byte, into api.Object) (api.Object, *api.Version, error) {
	patched, problems, got, err := p.reread(current, into, p.GVK)
	if err != nil {
		return nil, nil, err
	}
	obj, version := got.(api.Object), p.Version
	if gvk := got.GetObjectKind().GroupVersionKind(); gvk != p.GVK && p.in.isCustom(got) {
		version = p.in.misnamed(got, gvk)
	} else if got != into {
		version = p.Kind.Readable(got.GetObjectKind().GroupVersionKind().GroupVersion())
	}
	if version.Check != nil {
		if err := version.Check(obj); err != nil {
			return nil, nil, invalidPatch(string(patched), err.Error())
		}
	}
	return obj, version, p.complain(problems, string(patched))
}

// textualScale does that to a Scale.
func (p *patcher) textualScale(current []byte, into runtime.Object) error {
	patched, problems, _, err := p.reread(current, into, p.GVK)
	if err != nil {
		return err
	}
	return p.complain(problems, string(patched))
}

// reread patches JSON and reads it: into what is given or, if it is another version of the same then, as that.
func (p *patcher) reread(
	current []byte, into runtime.Object, gvk schema.GroupVersionKind,
) (patched []byte, problems []error, got runtime.Object, err error) {
	if patched, problems, err = p.patchText(current); err != nil {
		return nil, nil, nil, err
	}
	strict := p.options.FieldValidation != metav1.FieldValidationIgnore
	if names, ok := versionless(patched); ok && (p.Kind.Custom == nil || p.IsScale()) {
		if !strict {
			names = nil
		}
		return patched, append(problems, names...), into, nil
	}
	if err := p.in.checkQuantities(patched, codec.JSON, into, gvk); err != nil {
		return nil, nil, nil, err
	}
	got, gotKind, err := p.in.decoded(patched, codec.JSON, &gvk, into, strict)
	if s, ok := runtime.AsStrictDecodingError(err); ok {
		problems = append(problems, s.Errors()...)
	}
	switch {
	case err != nil && (got == nil || !runtime.IsStrictDecodingError(err)):
		return nil, nil, nil, invalidPatch(string(patched), err.Error())
	case p.in.isCustom(got):
	case *gotKind != gvk && (got == into || !p.isVersion(*gotKind)):
		return nil, nil, nil, invalidPatch(string(patched), p.in.notConverted(got, *gotKind, gvk))
	}
	return patched, problems, got, nil
}

// isVersion tells whether gvk is a version, served or not, of what the request is about.
func (p *patcher) isVersion(gvk schema.GroupVersionKind) bool {
	return !p.IsScale() && gvk.Kind == p.GVK.Kind && gvk.Kind == p.Kind.Name &&
		p.Kind.Readable(gvk.GroupVersion()) != nil
}

// versionless tells whether a patch took the apiVersion away, and what is wrong then. Upstream takes such JSON for that
// of its internal types, which are not made for it: of all that an object has nothing is known there.
func versionless(patched []byte) (problems []error, ok bool) {
	var top map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(patched, &top) != nil || top == nil {
		return nil, false
	}
	if version := top["apiVersion"]; version != nil && version != "" {
		return nil, false
	}
	if _, ok := top["kind"].(string); !ok && top["kind"] != nil {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if name != "kind" && name != "apiVersion" {
			problems = append(problems, fmt.Errorf("unknown field %q", name))
		}
	}
	return problems, true
}

// complain treats what strictness found as the client asked for.
func (p *patcher) complain(problems []error, patched string) error {
	if len(problems) == 0 {
		return nil
	}
	err := runtime.NewStrictDecodingError(problems)
	if p.options.FieldValidation == metav1.FieldValidationStrict {
		return invalidPatch(patched, err.Error())
	}
	p.in.warnStrict(err)
	return nil
}

// checkContent refuses content, from which an object of the request's version is to be made, with quantities that can't
// be computed with. Only the patch can have brought them.
func (p *patcher) checkContent(content map[string]any) error {
	if !quantities.Suspicious(p.body) {
		return nil
	}
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return p.in.checkQuantities(text, codec.JSON, p.Version.New(), p.GVK)
}

func invalidPatch(value any, detail string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "",
		field.ErrorList{field.Invalid(field.NewPath("patch"), value, detail)})
}

// jsonPatchOp is for strict decoding only: jsonpatch reads on its own. Clients are told its name.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p *patcher) patchText(current []byte) (patched []byte, problems []error, err error) {
	if p.options.FieldValidation != metav1.FieldValidationIgnore {
		var into any = &map[string]any{}
		if p.kind == types.JSONPatchType {
			into = &[]jsonPatchOp{}
		}
		if problems, err = kjson.UnmarshalStrict(p.body, into); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		if p.kind == types.JSONPatchType {
			for i, problem := range problems {
				problems[i] = fmt.Errorf("json patch %w", problem)
			}
		}
	}
	if p.kind == types.MergePatchType {
		patched, err = jsonpatch.MergePatch(current, p.body)
		if err != nil {
			err = apierrors.NewBadRequest(err.Error())
		}
		return patched, problems, err
	}
	operations, err := jsonpatch.DecodePatch(p.body)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(operations)))
	}
	patched, err = operations.Apply(current)
	if err != nil {
		return nil, nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{},
			"", err.Error(), 0, false)
	}
	return patched, problems, nil
}
