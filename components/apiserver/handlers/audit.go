package handlers

import (
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"quintet.dev/quintet/components/apiserver/audit/record"
	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// auditRequest notes the hub object that the request carries, in the version in which it came.
func (d *decoder) auditRequest(obj api.Object) {
	record.Request(d.ctx, obj, d.GVR, d.info.Subresource, d.auditShown)
}

// auditBody notes an object of the kind given that the request carries and that has no versions.
func (d *decoder) auditBody(obj runtime.Object, kind schema.GroupVersionKind) {
	record.Request(d.ctx, obj, d.GVR, d.info.Subresource, auditKind(kind))
}

func (d *decoder) auditShown(obj runtime.Object) ([]byte, error) {
	shown, err := d.FromHub(obj.(api.Object))
	if err != nil {
		return nil, err
	}
	return codec.Body(shown, d.GVK, codec.JSON)
}

// auditDeprecation notes that the request is for a version on its way out.
func (c *call) auditDeprecation() {
	if record.Level(c.ctx) == auditapi.LevelNone {
		return
	}
	audit.AddAuditAnnotation(c.ctx, "k8s.io/deprecated", "true")
	if release := c.Version.RemovedRelease; release != "" {
		audit.AddAuditAnnotation(c.ctx, "k8s.io/removed-release", release)
	}
}

// auditKind encodes objects that are what they are.
func auditKind(kind schema.GroupVersionKind) record.Encode {
	return func(obj runtime.Object) ([]byte, error) { return codec.Body(obj, kind, codec.JSON) }
}

// auditPatch notes what a PATCH carries.
func (d *decoder) auditPatch(body []byte, cbor bool) {
	if cbor && !record.Level(d.ctx).Less(auditapi.LevelRequest) {
		var content any
		if err := direct.Unmarshal(body, &content); err != nil {
			return // the request fails, and says why
		}
		text, err := json.Marshal(content)
		if err != nil {
			return
		}
		body = text
	}
	record.Patch(d.ctx, body)
}

// auditEntry notes that an object is answered in the format given.
func (o *responder) auditEntry(f *cache.Format, e *cache.Entry) {
	if !record.WantsResponse(o.ctx) {
		return
	}
	record.Response(o.ctx, e.Object, func(obj runtime.Object) ([]byte, error) {
		return o.Format(codec.JSON, f.Shape).Encode(obj.(api.Object))
	})
}

// auditList notes that a list is answered, whose items are in the format given.
func (o *responder) auditList(l *cache.List, out codec.List, f *cache.Format) {
	if !record.WantsResponse(o.ctx) {
		return
	}
	format := o.Format(codec.JSON, f.Shape)
	record.Response(o.ctx, listed(l), func(obj runtime.Object) ([]byte, error) {
		out.Items = func(yield func([]byte, error) bool) {
			for _, item := range obj.(*metav1.List).Items {
				if body, err := format.Encode(item.Object.(api.Object)); !yield(body, err) {
					return
				}
			}
		}
		var buf bytes.Buffer
		err := codec.WriteList(&buf, codec.JSON, out)
		return buf.Bytes(), err
	})
}

// auditTable notes that objects are answered as the rows of a table.
func (o *responder) auditTable(l *cache.List, out codec.Table, rows cache.Rows) {
	if !record.WantsResponse(o.ctx) {
		return
	}
	record.Response(o.ctx, listed(l), func(obj runtime.Object) ([]byte, error) {
		entries := make([]*cache.Entry, len(l.Entries))
		for i, item := range obj.(*metav1.List).Items {
			entries[i] = registry.Unstored(item.Object.(api.Object))
		}
		out.Rows = rows.Make(entries)
		return codec.TableBody(out)
	})
}

// listed is a list as an object, of which a copy without managed fields can be made.
func listed(l *cache.List) *metav1.List {
	out := &metav1.List{Items: make([]runtime.RawExtension, len(l.Entries))}
	for i, e := range l.Entries {
		out.Items[i].Object = e.Object
	}
	return out
}

// auditPlain notes that an object is answered that is in no cache.
func (o *responder) auditPlain(obj runtime.Object, kind schema.GroupVersionKind) {
	record.Response(o.ctx, obj, auditKind(kind))
}
