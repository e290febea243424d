package handlers

import (
	"io"
	"net/http"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
)

// list answers with the objects that the options choose.
func (c *call) list() error {
	o, predicate, err := c.listOptions()
	if err != nil {
		return err
	}
	if c.Kind.Read != nil {
		return c.out.listed(c.Reader(&c.Request).ReadAll(c.ctx, predicate))
	}
	told := c.unready
	if isFromStore(o.Limit, predicate) {
		told = func(err error) error { return err }
	} else if err := c.convertible(); err != nil {
		return told(err)
	}
	c.steps.Reach("About to List from storage")
	l, err := c.Cache.List(c.ctx, cache.ListOptions{
		Namespace: c.Namespace, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Limit: o.Limit, Continue: o.Continue, Predicate: predicate,
	})
	if err != nil {
		return told(err)
	}
	c.steps.Reach("Listing from storage done")
	return told(c.out.listed(l))
}

// listed answers with a list.
func (o *responder) listed(l *cache.List) error {
	o.found()
	f := o.Format(o.choice.Media, cache.Whole)
	out := codec.List{
		Kind: o.Version.WithKind(o.Kind.ListKind()), Item: f.Kind, Meta: l.Meta(),
		Free: o.Kind.Custom != nil, KeepKinds: o.Kind.Custom != nil,
	}
	switch o.choice.Shape {
	case negotiate.Table:
		return o.table(http.StatusOK, l, "")
	case negotiate.Metadata:
		return o.isAList()
	case negotiate.MetadataList:
		f = o.metadata()
		out.Kind, out.Item = f.Kind.GroupVersion().WithKind(o.choice.Shape), f.Kind
		out.KeepKinds, out.Free, out.NullIfEmpty = true, false, true
	}
	o.formed()
	o.auditList(l, out, f)
	out.Items = l.Bodies(f)
	return o.serialized(func() error {
		switch {
		case o.choice.Pretty && o.choice.Media == codec.JSON:
			return o.send(http.StatusOK,
				indented(func(w io.Writer) error { return codec.WriteList(w, o.choice.Media, out) }))
		case (o.choice.Media == codec.JSON || o.choice.Media == codec.Protobuf) && o.zips() && l.CanZip():
			return o.sendZipped(func(w io.Writer) error { return l.WriteZipped(w, f, out) })
		}
		return o.send(http.StatusOK, func(w io.Writer) error { return codec.WriteList(w, o.choice.Media, out) })
	})
}
