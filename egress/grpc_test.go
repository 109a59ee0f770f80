package egress_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"cloister/egress/verdict"
)

// interopServer is gRPC's own.
func interopServer(t testing.TB, ca *testCA) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ca.leaf(nil, readHost)}})))
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// gRPC's own interop client meets no difference at the border. What goes wrong ends
// the test binary: its words are then the log's.
func TestGRPCInterop(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, interopServer(t, ca))
	conn, err := grpc.NewClient("passthrough:///"+readHost+":443",
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: w.pool})),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return w.dial(readHost, 443), nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tc := testgrpc.NewTestServiceClient(conn)
	cases := map[string]func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
		"empty_unary": interop.DoEmptyUnaryCall, "large_unary": interop.DoLargeUnaryCall,
		"client_streaming": interop.DoClientStreaming, "server_streaming": interop.DoServerStreaming,
		"ping_pong": interop.DoPingPong, "empty_stream": interop.DoEmptyStream,
		"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
		"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
		"custom_metadata":             interop.DoCustomMetadata, "status_code_and_message": interop.DoStatusCodeAndMessage,
		"special_status_message": interop.DoSpecialStatusMessage,
	}
	for name, do := range cases {
		t.Run(name, func(*testing.T) { do(ctx, tc) })
	}
	t.Run("unimplemented_service", func(*testing.T) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	})
	t.Run("unimplemented_method", func(*testing.T) { interop.DoUnimplementedMethod(ctx, conn) })
	// What is cancelled at once, often: both ends of a stream go at the same time. It is
	// interop's cancel_after_begin, which demands that the cancelling is first; directly,
	// too, the answer is so now and then.
	for range 50 {
		cancelled, cancel := context.WithCancel(ctx)
		stream, err := tc.StreamingInputCall(cancelled)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Canceled && err != nil {
			t.Fatalf("cancelled: %v", err)
		}
		interop.DoTimeoutOnSleepingServer(ctx, tc)
	}
	w.flow("a cancelled call", func(f verdict.Flow) bool { return f.Reason == "the program ended the request" })

	// A refusal is a status of gRPC's, with the words.
	w.set(readHost, verdict.Answer{Effect: "deny", Reason: "not so: 100 %", Hints: []string{"write y"}})
	_, err = tc.EmptyCall(ctx, &testgrpc.Empty{})
	if got := status.Convert(err); got.Code() != codes.PermissionDenied || !strings.Contains(got.Message(), "not so: 100 %\n") || !strings.Contains(got.Message(), "write y") {
		t.Errorf("refused: %v", err)
	}
}
