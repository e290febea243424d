package etcd

import (
	"context"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// How transactions are called: as the client of etcd does with its own. It waits for a connection, and bounds what it
// sends a little above what etcd takes.
var txnOptions = []grpc.CallOption{
	grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32),
}

// txn does one thing if key was last changed at a revision, which is 0 for a key that doesn't exist, and otherwise
// another, which may be nil. Its client's own way to say that copies the value, and makes much garbage besides; the
// connection, and what is tried again, are the same.
func (s *Store) txn(ctx context.Context, key []byte, revision int64, then, otherwise *pb.RequestOp) (*pb.TxnResponse,
	error) {
	request := &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: key, Target: pb.Compare_MOD,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: revision}}},
		Success: []*pb.RequestOp{then},
	}
	if otherwise != nil {
		request.Failure = []*pb.RequestOp{otherwise}
	}
	response, err := s.kv.Txn(ctx, request, txnOptions...)
	if err != nil {
		return nil, translate(clientv3.ContextError(ctx, err))
	}
	return response, nil
}

func put(key, value []byte, lease clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: int64(lease)}}}
}

func remove(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
}

func get(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
}
