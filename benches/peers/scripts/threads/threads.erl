%% The workloads of threads.py: `threads main WORKLOAD OPERATIONS`.
-module(threads).
-export([main/1]).

main([Workload, Operations]) ->
    N = list_to_integer(Operations),
    case Workload of
        "yield" -> yields(N);
        "spawn" -> spawns(N);
        "message" -> messages(N);
        "million" -> many(N)
    end,
    halt(0).

yields(N) ->
    A = spawn_monitor(fun() -> yield(N div 2) end),
    B = spawn_monitor(fun() -> yield(N div 2) end),
    ended(A),
    ended(B).

yield(0) -> ok;
yield(N) -> erlang:yield(), yield(N - 1).

ended({Pid, Ref}) ->
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

spawns(0) -> ok;
spawns(N) ->
    ended(spawn_monitor(fun() -> ok end)),
    spawns(N - 1).

messages(N) ->
    Echo = spawn_link(fun echo/0),
    ping(Echo, N div 2).

echo() ->
    receive {From, I} -> From ! I, echo() end.

ping(_, 0) -> ok;
ping(Echo, N) ->
    Echo ! {self(), N},
    receive N -> ok end,
    ping(Echo, N - 1).

many(N) ->
    Main = self(),
    Wait = fun() -> receive V -> Main ! {took, V} end end,
    All = [spawn(Wait) || _ <- lists:seq(1, N)],
    erlang:yield(),
    [Pid ! 1 || Pid <- All],
    N = collect(N, 0).

collect(0, Sum) -> Sum;
collect(N, Sum) ->
    receive {took, V} -> collect(N - 1, Sum + V) end.
