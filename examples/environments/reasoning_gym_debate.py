"""A team debates puzzles that reasoning-gym makes for one agent; here the oracle plays, in a second.

Needs the extra `reasoning`: pip install "comlrl-envs[reasoning]".
"""

import comlrl_envs
from comlrl_envs.qa.reasoning import reasoning_tasks

env = comlrl_envs.make("qa/debate", tasks=reasoning_tasks("chain_sum", size=10, seed=0), num_agents=3)
observations, _ = env.reset(seed=0)
print(observations["solver_1"], "\n")
while env.agents:
    observations, rewards, _, _, infos = env.step(env.game.oracle(env.episode))
    print(f"reward {rewards['solver_1']:.2f}; answers right so far: {infos['solver_1']['metric/accuracy']:.2f}")
